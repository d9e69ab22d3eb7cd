"""SentencePiece BPE: merges whatever pair makes the token of the highest score, bytes where nothing fits."""

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import UnencodableText

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.vocabulary import Vocabulary

SPACE = "▁"
_LONG = 64  # words of more characters are not worth keeping
_KEPT_WORDS = 1 << 15


class SentencePieceBpe:
    """The merging of one vocabulary.

    A pair may merge when the joined text is a token that is not control, unknown or byte. The pair whose
    token has the highest score goes first, the leftmost of equals. The way of sentencepiece and llama.cpp.
    """

    def __init__(self, vocabulary: Vocabulary, scores: NDArray[np.float64], *, adds_space: bool) -> None:
        self._vocabulary = vocabulary
        self._pieces = _pieces(vocabulary)
        self._costs: list[float] = (-scores).tolist()
        self._prefix = SPACE if adds_space else ""
        self._unknown = _unknown(vocabulary)
        self._boundary = _boundary(self._pieces)
        self._kept = lru_cache(maxsize=_KEPT_WORDS)(self._encode_word)

    def encode(self, text: str, *, starts: bool) -> Sequence[int]:
        """Return the ids of a text without special tokens; a space goes before it where it `starts` one."""
        spaced = (self._prefix if starts else "") + text.replace(" ", SPACE)
        ids: list[int] = []
        for word in self._boundary.split(spaced):
            ids += self._kept(word) if len(word) <= _LONG else self._encode_word(word)
        return ids

    def _encode_word(self, word: str) -> tuple[int, ...]:
        whole = self._pieces.get(word) if len(word) == 1 else None
        if whole is not None:
            return (whole,)
        ids: list[int] = []
        for symbol in merge(word, self._pieces, self._costs):
            piece = self._pieces.get(symbol)
            ids += self._bytes(symbol) if piece is None else (piece,)
        return tuple(ids)

    def _bytes(self, symbol: str) -> list[int]:
        """Return the byte tokens of a character that has no token, or else the unknown token."""
        ids = [self._vocabulary.ids.get(f"<0x{byte:02X}>", -1) for byte in symbol.encode()]
        if -1 not in ids:
            return ids
        if self._unknown is None:
            raise UnencodableText(f"{symbol!r} or its bytes")
        return [self._unknown]


def merge(word: str, pieces: Mapping[str, int], costs: Sequence[float]) -> list[str]:
    """Return the symbols that are left when no pair of a word can merge any more; n log n in its length.

    `pieces` are the tokens that a pair may become, `costs` their negated scores by id.
    """
    symbols: list[str] = list(word)
    before = list(range(-1, len(symbols) - 1))
    after = list(range(1, len(symbols) + 1))
    queue: list[tuple[float, int, int, str]] = []

    def consider(left: int, right: int) -> None:
        joined = symbols[left] + symbols[right]
        piece = pieces.get(joined)
        if piece is not None:
            heapq.heappush(queue, (costs[piece], left, right, joined))

    for left in range(len(symbols) - 1):
        consider(left, left + 1)
    while queue:
        _, left, right, joined = heapq.heappop(queue)
        # A symbol only ever grows, or becomes empty when its left neighbour takes it.
        if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != joined:
            continue
        symbols[left], symbols[right] = joined, ""
        after[left] = after[right]
        if after[left] < len(symbols):
            before[after[left]] = left
            consider(left, after[left])
        if before[left] >= 0:
            consider(before[left], left)
    return [symbol for symbol in symbols if symbol]


def _pieces(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the tokens that text may become."""
    pieces = dict(vocabulary.ids)
    for token in vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.BYTE):
        del pieces[vocabulary.tokens[token]]
    return pieces


def _unknown(vocabulary: Vocabulary) -> int | None:
    """Return the unknown token, unless the file gives it to ordinary text."""
    token = vocabulary.unknown
    return None if token is None or vocabulary.kinds[token] == TokenKind.NORMAL else token


def _boundary(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return where a text may be cut before it is merged: before a space, after what no token has there.

    No merge can cross such a place, so the parts give the same tokens as the whole.
    """
    crossing = set(re.findall(f"([^{SPACE}\ud800]){SPACE}", "\ud800".join(tokens)))
    inside = "".join(re.escape(character) for character in sorted(crossing))
    return re.compile(f"(?<=[^{SPACE}{inside}])(?={SPACE})")
