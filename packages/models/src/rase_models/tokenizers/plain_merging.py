"""Merging in plain Python, word by word: what there is without a compiler."""

import heapq
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from rase_models.tokenizers.byte_fallback import byte_tokens
from rase_models.tokenizers.merge_table import (
    MergeTable,
    Neighbours,
    code_points,
    neighbour_hashes,
    neighbours,
    separated,
)
from rase_models.tokenizers.space import SPACE

_LONG = 64  # a word of more characters is cut further, and not kept where it cannot be
_NEVER = math.inf
_KEPT_WORDS = 1 << 15


class PlainMerging:
    """The merging of one table; the pair of the lowest rank goes first, the leftmost of equals."""

    def __init__(self, table: MergeTable) -> None:
        self._words = _Words(table, _costs(table), _pieces(table), table.byte_ids.tolist())
        self._neighbours = neighbours(separated(table.pairs), table.joint)
        self._boundary = _boundary(self._neighbours)
        self._kept = lru_cache(maxsize=_KEPT_WORDS)(self._words.encode)  # which keeps nothing of this

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text. Raises UnencodableText where no token stands for a part of it."""
        ids: list[int] = []
        for word in self._boundary.split(text):
            for part in (word,) if len(word) <= _LONG else self._pairs.cut(word):
                ids += self._kept(part) if len(part) <= _LONG else self._words.encode(part)
        return ids

    @cached_property
    def _pairs(self) -> "PairsWithin":
        return PairsWithin(self._neighbours)


@dataclass(frozen=True, slots=True)
class Costs:
    """What each pair costs that may merge, less than infinite, by its two texts with `joint` between them."""

    by_pair: Mapping[str, float]
    joint: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """The words of a table, and what they become."""

    table: MergeTable
    costs: Costs
    pieces: Mapping[str, int]
    byte_ids: Sequence[int]

    def encode(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word."""
        ids: list[int] = []
        for symbol in (merge_short if len(word) <= _LONG else merge)(word, self.costs):
            piece = self.pieces.get(symbol)
            ids += byte_tokens(symbol, self.byte_ids, self.table.unknown) if piece is None else (piece,)
        return tuple(ids)


class PairsWithin:
    """The pairs of characters between which something may merge.

    Kept by a hash of 22 bits: pairs that share it with another count as known, so that there are fewer cuts.
    """

    def __init__(self, known: Neighbours) -> None:
        self._known = known.hashed()

    def cut(self, text: str) -> list[str]:
        """Return the parts of a text that may be merged each alone."""
        codes = code_points(text)
        cuts = (np.flatnonzero(~self._known[neighbour_hashes(codes[:-1], codes[1:])]) + 1).tolist()
        return [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]


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


def _costs(table: MergeTable) -> Costs:
    costs = dict(zip(reversed(table.pairs), table.ranks[::-1].tolist(), strict=True))  # the first of equals
    for pair in np.flatnonzero(table.ranks < 0).tolist():
        costs.pop(table.pairs[pair], None)  # which may be listed twice
    return Costs(costs, table.joint)


def _pieces(table: MergeTable) -> dict[str, int]:
    """Return the tokens that text may become."""
    pieces = dict(zip(table.tokens, range(len(table.tokens)), strict=True))
    for token in np.flatnonzero(~table.is_text).tolist():
        del pieces[table.tokens[token]]
    return pieces


def _boundary(known: Neighbours) -> re.Pattern[str]:
    """Return where a text may be cut before it is merged: before a space that nothing merges with there.

    No merge can cross such a place, so the parts give the same tokens as the whole.
    """
    before = np.unique(known.left[known.right == ord(SPACE)]).tolist()
    inside = "".join(re.escape(chr(code)) for code in {ord(SPACE), *before})
    return re.compile(f"(?<=[^{inside}])(?={SPACE})")
