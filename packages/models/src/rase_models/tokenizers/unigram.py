"""SentencePiece Unigram: the tokens that are the most likely together."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import TokenizerError
from rase_core.progress import Progress

from rase_models.tokenizers.charsmap import Charsmap
from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.library import text_ids
from rase_models.tokenizers.pieces import is_text
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

    from rase_models.backends.cpu.token_trie import TrieEncoding

_UNKNOWN_COSTS = 10.0
"""How much lower than the lowest score an unknown character scores; SentencePiece's own."""

_BETWEEN = "\ud800"  # which no text has
_TEXT = (TokenKind.NORMAL, TokenKind.USER_DEFINED)

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
        self._unknown, self._spaces = vocabulary.unknown, spaces
        self._charsmap = _charsmap(vocabulary, charsmap)
        self._texts, self._all_scores = _texts(vocabulary), _all_scores(vocabulary, scores)
        # Then words alone give the same tokens.
        together = _BETWEEN + _BETWEEN.join(self._texts)
        self._cuts = together.count(SPACE) == together.count(_BETWEEN + SPACE)
        self._compiled: TrieEncoding | None = None

    def compile(self, progress: Progress | None = None) -> None:
        """Encode by compiled code from now on, where there is a compiler; it gives the same ids, sooner."""
        least = float(self._all_scores.min())
        if least > 0:
            return  # unknown characters side by side may be likelier than a token
        try:
            from rase_models.backends.cpu.token_trie import likeliest_tokens
        except ImportError:
            return
        tokens = [text.encode() for text in self._texts]
        trees = np.array([-(text[0] == " ") for text in self._texts], np.int32)
        if self._charsmap is not None:
            self._charsmap.compile(progress)
        self._compiled = likeliest_tokens(
            tokens,
            trees,
            self._all_scores,
            self._unknown,
            least - _UNKNOWN_COSTS,
            cuts=self._cuts,
            progress=progress,
        )

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a character that no token stands for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        if self._charsmap is not None:
            text = self._charsmap.normalize(text)
        spaced = self._spaced(text)
        ids = None if self._compiled is None else self._compiled.ids(spaced.encode())
        return text_ids(self._library, spaced, dict.fromkeys(spaced)) if ids is None else ids

    def _spaced(self, text: str) -> str:
        if self._spaces.merges:
            return "".join(SPACE + word for word in text.split(" ") if word)
        first = SPACE if self._spaces.adds_one and text.strip(" ") else ""
        return first + text.replace(" ", SPACE)

    @cached_property
    def _library(self) -> "Library":
        from tokenizers import Tokenizer, models
        from tokenizers.pre_tokenizers import Metaspace

        pieces = list(zip(self._texts, self._all_scores.tolist(), strict=True))
        library = Tokenizer(models.Unigram(pieces, self._unknown, byte_fallback=False))
        if self._cuts:
            # It remembers words.
            library.pre_tokenizer = Metaspace(SPACE, prepend_scheme="never", split=True)
        return library


def _charsmap(vocabulary: Vocabulary, data: bytes) -> Charsmap | None:
    try:
        return Charsmap(data) if data else None
    except ValueError as error:
        raise TokenizerError(f"{vocabulary.path}: metadata {CHARSMAP_KEY}: {error}") from error


def _texts(vocabulary: Vocabulary) -> list[str]:
    """Return the text of each id, one with a space, which is `▁` in texts, for what text cannot become.

    That is also what is not whole characters.
    """
    texts, is_odd = list(vocabulary.tokens), ~np.isin(vocabulary.kinds, _TEXT)
    if not is_text("".join(texts)):
        is_odd |= ~np.fromiter(map(is_text, texts), np.bool_, len(texts))
    for i in np.flatnonzero(is_odd).tolist():
        texts[i] = f" {i}"
    return texts


def _all_scores(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of each id; user-defined tokens have 0, more than any other."""
    is_normal = vocabulary.kinds == TokenKind.NORMAL
    least = scores[is_normal].min(initial=0.0)
    return np.where(is_normal, scores, np.where(vocabulary.kinds == TokenKind.USER_DEFINED, 0.0, least))
