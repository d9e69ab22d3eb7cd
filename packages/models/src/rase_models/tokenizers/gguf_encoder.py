"""Text to ids with a GGUF's vocabulary: special tokens first, the text between them by the model."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.special_tokens import SpecialTokens
from rase_models.tokenizers.turn_markers import is_turn_marker
from rase_models.tokenizers.vocabulary import Vocabulary

MARKER_KINDS = (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED)


class TextModel(Protocol):
    """What merges text without special tokens."""

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already."""
        ...


def in_turn(parts: Iterable[int | str], encode: Callable[[str], Iterable[int]]) -> list[int]:
    """Return the ids of the parts of a text; `encode` gives those of a part that is text."""
    ids: list[int] = []
    for part in parts:
        ids.extend((part,) if isinstance(part, int) else encode(part))
    return ids


class GgufEncoder:
    """The encoder of one vocabulary."""

    def __init__(
        self, vocabulary: Vocabulary, model: TextModel, strips: frozenset[int] = frozenset()
    ) -> None:
        """`strips` are the tokens that take the white space after them away."""
        self._vocabulary = vocabulary
        self._model = model
        user_defined = vocabulary.of_kind(TokenKind.USER_DEFINED)
        self._special = _special_tokens(vocabulary, strips, vocabulary.of_kind(*MARKER_KINDS))
        self._user_defined = _special_tokens(vocabulary, strips, user_defined)
        undivided = (i for i in user_defined if not is_turn_marker(vocabulary.tokens[i]))
        self._of_others = _special_tokens(vocabulary, strips, undivided)

    def encode_marked(self, text: str, mark: str) -> list[int]:
        """Return the ids of a prompt in which spellings with a mark in them are text."""
        return self._model.encode(self._unmarked(text, mark))

    def _unmarked(self, text: str, mark: str) -> Iterator[int | str]:
        """Yield the parts of a marked text; the model sees no marks."""
        for part in self._special.split(text):
            if isinstance(part, str) and mark in part:
                yield from self._of_others.split(part.replace(mark, ""))
            else:
                yield part

    def encode(self, text: str, *, add_special_tokens: bool, parse_special: bool) -> list[int]:
        """Return the ids of a text; user-defined tokens are always found, control tokens on demand."""
        vocabulary = self._vocabulary
        ids = self._model.encode((self._special if parse_special else self._user_defined).split(text))
        if add_special_tokens and vocabulary.add_bos and vocabulary.bos is not None:
            ids.insert(0, vocabulary.bos)
        if add_special_tokens and vocabulary.add_eos and vocabulary.eos is not None:
            ids.append(vocabulary.eos)
        return ids


def _special_tokens(vocabulary: Vocabulary, strips: frozenset[int], ids: Iterable[int]) -> SpecialTokens:
    return SpecialTokens({vocabulary.tokens[i]: i for i in ids}, strips)
