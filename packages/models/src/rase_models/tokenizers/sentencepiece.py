"""SentencePiece BPE: `▁` for a space, merges between all other characters, bytes where nothing fits."""

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import UnencodableText

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.vocabulary import Vocabulary

SPACE = "▁"
_NO_TEXT = (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.BYTE)
_LONG = 64  # a word of more characters is cut further, and not kept where it cannot be
_MOST_COST = 1e300
_NEVER = math.inf
_HASH_BITS = 22
_ODD = np.uint32(0x9E3779B1)  # spreads neighbouring numbers, as Knuth's multiplicative hashing does
_KEPT_WORDS = 1 << 15


class SentencePieceBpe:
    """The merging of one vocabulary; the pair of the lowest cost goes first, the leftmost of equals.

    The way of sentencepiece and llama.cpp.
    """

    def __init__(self, vocabulary: Vocabulary, costs: "Costs", *, adds_space: bool) -> None:
        self._words = _Words(vocabulary, costs, _pieces(vocabulary), _unknown(vocabulary))
        self._prefix = SPACE if adds_space else ""
        self._boundary = _boundary(self._words.pieces)
        self._kept = lru_cache(maxsize=_KEPT_WORDS)(self._words.encode)  # which keeps nothing of this

    def encode(self, text: str, *, starts: bool) -> Sequence[int]:
        """Return the ids of a text without special tokens; a space goes before it where it `starts` one."""
        spaced = (self._prefix if starts else "") + text.replace(" ", SPACE)
        ids: list[int] = []
        for word in self._boundary.split(spaced):
            for part in (word,) if len(word) <= _LONG else self._pairs.cut(word):
                ids += self._kept(part) if len(part) <= _LONG else self._words.encode(part)
        return ids

    @cached_property
    def _pairs(self) -> "PairsWithin":
        return PairsWithin(self._words.pieces)


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """The words of a vocabulary, and what they become."""

    vocabulary: Vocabulary
    costs: "Costs"
    pieces: Mapping[str, int]
    unknown: int | None

    def encode(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word."""
        ids: list[int] = []
        for symbol in (merge_short if len(word) <= _LONG else merge)(word, self.costs):
            piece = self.pieces.get(symbol)
            ids += self._bytes(symbol) if piece is None else (piece,)
        return tuple(ids)

    def _bytes(self, symbol: str) -> list[int]:
        """Return the byte tokens of a character that has no token, or else the unknown token."""
        ids = [self.vocabulary.ids.get(f"<0x{byte:02X}>", -1) for byte in symbol.encode()]
        if -1 not in ids:
            return ids
        if self.unknown is None:
            raise UnencodableText(f"{symbol!r} or its bytes")
        return [self.unknown]


@dataclass(frozen=True, slots=True)
class Costs:
    """What each pair costs that may merge, less than infinite, by its two texts with `joint` between them."""

    by_pair: Mapping[str, float]
    joint: str = ""


def costs_of_scores(vocabulary: Vocabulary, scores: NDArray[np.float64]) -> Costs:
    """Return costs by which a pair may become any token of text; the one of the highest score goes first."""
    finite = np.clip(-scores, -_MOST_COST, _MOST_COST)
    costs = dict(zip(vocabulary.tokens, finite.tolist(), strict=True))
    for token in vocabulary.of_kind(*_NO_TEXT):
        del costs[vocabulary.tokens[token]]
    return Costs(costs)


def costs_of_merges(merges: Sequence[str]) -> Costs:
    """Return costs by which only the pairs that are listed merge, two texts and a space between them each."""
    return Costs(dict(zip(reversed(merges), range(len(merges), 0, -1), strict=True)), " ")


class PairsWithin:
    """The pairs of characters that some token has side by side; between any others nothing ever merges.

    Kept by a hash of 22 bits: pairs that share it with another count as known, so that there are fewer cuts.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._known = np.zeros(1 << _HASH_BITS, np.bool_)
        self._known[_pair_hashes("\n".join(tokens))] = True

    def cut(self, text: str) -> list[str]:
        """Return the parts of a text that may be merged each alone."""
        cuts = (np.flatnonzero(~self._known[_pair_hashes(text)]) + 1).tolist()
        return [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]


def _pair_hashes(text: str) -> NDArray[np.uint32]:
    """Return a number below 2 ** 22 for each pair of neighbours, uint32 [n - 1]."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return (codes[:-1] * _ODD + codes[1:]) * _ODD >> np.uint32(32 - _HASH_BITS)


def merge_short(word: str, costs: Costs) -> list[str]:
    """Do what `merge` does, sooner for short words: in time that grows with the square of the length."""
    symbols, cost, joint = list(word), costs.by_pair.get, costs.joint
    prices = [cost(left + joint + right, _NEVER) for left, right in pairwise(symbols)]
    while prices and (least := min(prices)) != _NEVER:
        at = prices.index(least)
        joined = symbols[at] + symbols.pop(at + 1)
        symbols[at] = joined
        del prices[at]
        if at:
            prices[at - 1] = cost(symbols[at - 1] + joint + joined, _NEVER)
        if at < len(prices):
            prices[at] = cost(joined + joint + symbols[at + 1], _NEVER)
    return symbols


def merge(word: str, costs: Costs) -> list[str]:
    """Return the symbols that are left when no pair of a word can merge any more; n log n in its length."""
    symbols: list[str] = list(word)
    before = list(range(-1, len(symbols) - 1))
    after = list(range(1, len(symbols) + 1))
    queue: list[tuple[float, int, int, str]] = []

    def consider(left: int, right: int) -> None:
        cost = costs.by_pair.get(symbols[left] + costs.joint + symbols[right])
        if cost is not None:
            heapq.heappush(queue, (cost, left, right, symbols[left] + symbols[right]))

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
    for token in vocabulary.of_kind(*_NO_TEXT):
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
