"""Text to ids with a GGUF's vocabulary: special tokens first, the text between them by the model."""

from collections.abc import Sequence
from typing import Protocol

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.special_tokens import SpecialTokens
from rase_models.tokenizers.vocabulary import Vocabulary

MARKER_KINDS = (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)


class TextModel(Protocol):
    """What merges text without special tokens."""

    def encode(self, text: str, *, starts: bool) -> Sequence[int]:
        """Return the ids of a text; it `starts` at the beginning or after a special token."""
        ...


class GgufEncoder:
    """The encoder of one vocabulary."""

    def __init__(
        self, vocabulary: Vocabulary, model: TextModel, strips: frozenset[int] = frozenset()
    ) -> None:
        """`strips` are the tokens that take the white space after them away."""
        self._vocabulary = vocabulary
        self._model = model
        self._special = _special_tokens(vocabulary, strips, *MARKER_KINDS)
        self._user_defined = _special_tokens(vocabulary, strips, TokenKind.USER_DEFINED)

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool) -> list[int]:
        """Return the ids of a text; user-defined tokens are always found, control tokens on demand."""
        vocabulary = self._vocabulary
        ids: list[int] = []
        if add_special_tokens and vocabulary.add_bos and vocabulary.bos is not None:
            ids.append(vocabulary.bos)
        starts = True
        for part in (self._special if parse_special else self._user_defined).split(text):
            ids.extend((part,) if isinstance(part, int) else self._model.encode(part, starts=starts))
            starts = isinstance(part, int)
        if add_special_tokens and vocabulary.add_eos and vocabulary.eos is not None:
            ids.append(vocabulary.eos)
        return ids


def _special_tokens(vocabulary: Vocabulary, strips: frozenset[int], *kinds: TokenKind) -> SpecialTokens:
    return SpecialTokens({vocabulary.tokens[i]: i for i in vocabulary.of_kind(*kinds)}, strips)
