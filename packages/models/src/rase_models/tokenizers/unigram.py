"""SentencePiece Unigram, by the `tokenizers` library: the tokens that are the most likely together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import TokenizerError

from rase_models.tokenizers.charsmap import Charsmap
from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.library import text_ids
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

CHARSMAP_KEY = "tokenizer.ggml.precompiled_charsmap"


@dataclass(frozen=True, slots=True)
class SpaceRules:
    """What becomes of spaces.

    Attributes:
        adds_one: whether a space is put before a text.
        merges: whether spaces side by side count as one, and those at the end as none.
    """

    adds_one: bool
    merges: bool


class Unigram:
    """The choice among one vocabulary; TokenizerError naming the key of a broken map."""

    def __init__(
        self, vocabulary: Vocabulary, scores: NDArray[np.float64], charsmap: bytes, spaces: SpaceRules
    ) -> None:
        self._spaces = spaces
        self._charsmap = _charsmap(vocabulary, charsmap)
        self._library = _library(vocabulary, scores)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a character that no token stands for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        if self._charsmap is not None:
            text = self._charsmap.normalize(text)
        spaced = self._spaced(text)
        return text_ids(self._library, spaced, dict.fromkeys(spaced))

    def _spaced(self, text: str) -> str:
        if self._spaces.merges:
            return "".join(SPACE + word for word in text.split(" ") if word)
        first = SPACE if self._spaces.adds_one and text.strip(" ") else ""
        return first + text.replace(" ", SPACE)


def _charsmap(vocabulary: Vocabulary, data: bytes) -> Charsmap | None:
    try:
        return Charsmap(data) if data else None
    except ValueError as error:
        raise TokenizerError(f"{vocabulary.path}: metadata {CHARSMAP_KEY}: {error}") from error


def _library(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> "Library":
    from tokenizers import Tokenizer, models
    from tokenizers.pre_tokenizers import Metaspace

    pieces = _pieces(vocabulary, scores)
    library = Tokenizer(models.Unigram(pieces, vocabulary.unknown, byte_fallback=False))
    if not any(SPACE in piece[1:] for piece, _ in pieces):
        # Words alone give the same tokens, and the library remembers them.
        library.pre_tokenizer = Metaspace(SPACE, prepend_scheme="never", split=True)
    return library


def _pieces(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> list[tuple[str, float]]:
    """Return the text and score of each id; for what text must not become a text that it cannot have.

    User-defined tokens score 0, more than any other.
    """
    normal = scores[vocabulary.kinds == TokenKind.NORMAL]
    least = float(normal.min(initial=0.0))
    pieces = list(zip(vocabulary.tokens, scores.tolist(), strict=True))
    for i in vocabulary.of_kind(TokenKind.USER_DEFINED):
        pieces[i] = (vocabulary.tokens[i], 0.0)
    for i in np.flatnonzero(~np.isin(vocabulary.kinds, (TokenKind.NORMAL, TokenKind.USER_DEFINED))).tolist():
        pieces[i] = (f" {i}", least)  # the text has `▁` for each space
    return pieces
