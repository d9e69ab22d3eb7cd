"""The tokens that are still in play, and the rules that narrow them down."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Logits
from rase_core.sampling.exponential import exponential

_GROUP = 64
_FIRST_SORT = 256
SHARE_SUMS = 64
"""How many sums the probabilities of a vocabulary are added up in."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens with their logits, the likeliest first and the lower id first among equals.

    tokens: int64 [n], logits: float64 [n], n >= 1. A `min_p` or `top_p` is a share of the probability at
    temperature 1 of the candidates that are there when it is applied.
    """

    tokens: NDArray[np.intp]
    logits: NDArray[np.float64]

    def weights(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """Return the probabilities relative to the likeliest candidate's, float64 [n]."""
        with np.errstate(over="ignore"):
            return exponential((self.logits - self.logits[0]) / temperature)

    def first(self, count: int) -> Self:
        """Keep the `count` likeliest, at least one."""
        count = max(count, 1)
        return type(self)(self.tokens[:count], self.logits[:count])

    def without_first(self, count: int) -> Self:
        """Drop the `count` likeliest."""
        return type(self)(self.tokens[count:], self.logits[count:])

    def top_p(self, p: float) -> Self:
        """Keep the fewest likeliest candidates whose probabilities reach `p` together."""
        cumulative = np.cumsum(self.weights())
        return self.first(int(np.searchsorted(cumulative, p * cumulative[-1])) + 1)

    def min_p(self, p: float) -> Self:
        """Keep the candidates at least `p` times as likely as the likeliest."""
        return self.first(int(np.count_nonzero(self.weights() >= p)))

    def probable(self, top_p: float, min_p: float) -> Self:
        """Return `top_p`, then `min_p`, of these."""
        weights = self.weights()
        cumulative = np.cumsum(weights)
        count = int(np.searchsorted(cumulative, top_p * cumulative[-1])) + 1
        return self.first(int(np.count_nonzero(weights[:count] >= min_p)))

    def exclude_top(self, threshold: float) -> Self:
        """Drop all candidates of probability `threshold` or more but the least likely of them (XTC)."""
        weights = self.weights()
        likely = (weights >= threshold * np.cumsum(weights)[-1]) & (weights > 0)
        probable = int(np.count_nonzero(likely))
        return self.without_first(max(probable - 1, 0))

    def draw(self, temperature: float, uniform: float) -> int:
        """Return the token whose share of the cumulative probability holds `uniform`, a number in [0, 1)."""
        cumulative = np.cumsum(self.weights(temperature))
        index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
        return int(self.tokens[min(index, len(self.tokens) - 1)])


def top_k(logits: Logits, k: int) -> Candidates:
    """Return the `k` likeliest tokens (all when k is 0 or too large) of logits float32 [vocab].

    Exact and without sorting the vocabulary: the k-th largest of the maxima of groups bounds the k-th largest
    logit from below, and few logits reach it.
    """
    if k <= 0 or k >= logits.size:
        return _in_order(logits, np.arange(logits.size))
    bound = _lower_bound(logits, k)
    tokens = np.flatnonzero(logits >= bound) if bound is not None else np.arange(logits.size)
    return _in_order(logits, _largest(logits, tokens, k))


def nucleus(logits: Logits, p: float) -> Candidates:
    """Return the fewest likeliest of all tokens whose probabilities reach `p` together.

    Sorts only as many tokens as it takes, 8 times more whenever those were not enough.
    """
    target, count = p * total_share(logits), _FIRST_SORT
    while True:
        candidates = top_k(logits, count)
        cumulative = np.cumsum(candidates.weights())
        if cumulative[-1] >= target or count >= logits.size:
            return candidates.first(int(np.searchsorted(cumulative, target)) + 1)
        count *= 8


def total_share(logits: Logits) -> float:
    """Return what the probabilities of all tokens, relative to the likeliest's, add up to.

    64 sums of every 64th token's, and then the sum of these: an order that vector registers can keep, too.
    """
    shares = _shares(logits)
    whole = shares.size - shares.size % SHARE_SUMS
    sums = np.zeros(SHARE_SUMS)
    if whole:
        sums += np.cumsum(shares[:whole].reshape(-1, SHARE_SUMS), axis=0)[-1]
    sums[: shares.size - whole] += shares[whole:]
    return float(np.cumsum(sums)[-1])


def at_least(logits: Logits, p: float) -> Candidates:
    """Return the tokens at least `p` times as likely as the likeliest of all."""
    return _in_order(logits, np.flatnonzero(_shares(logits) >= p))


def narrowed(logits: Logits, k: int, top_p: float, min_p: float) -> Candidates:
    """Return what `k` of the likeliest (0 for all), then `top_p`, then `min_p` leave of all tokens."""
    if k:
        return top_k(logits, k).probable(top_p, min_p)
    if top_p < 1:
        return nucleus(logits, top_p).min_p(min_p)
    return at_least(logits, min_p)


def draw_from_all(logits: Logits, temperature: float, uniform: float) -> int:
    """Return the token whose share of the cumulative probability, in the order of ids, holds `uniform`."""
    cumulative = np.cumsum(_shares(logits, temperature))
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return min(index, logits.size - 1)


def _shares(logits: Logits, temperature: float = 1.0) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    with np.errstate(over="ignore"):
        return exponential((values - values.max()) / temperature)


def _lower_bound(logits: Logits, k: int) -> np.float32 | None:
    groups = logits.size // _GROUP
    if groups <= k:
        return None
    # Groups of every `groups`-th logit: their maxima are those of whole rows, which is several times faster.
    maxima = logits[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    return np.partition(maxima, groups - k)[groups - k]  # type: ignore[no-any-return]


def _largest(logits: Logits, tokens: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """Return the k of `tokens` (ascending) with the largest logits; of equal ones the lower ids."""
    values = logits[tokens]
    least = np.partition(values, values.size - k)[values.size - k]
    above, equal = tokens[values > least], tokens[values == least]
    return np.concatenate((above, equal[: k - above.size]))


def _in_order(logits: Logits, tokens: NDArray[np.intp]) -> Candidates:
    values = logits[tokens].astype(np.float64)
    order = np.lexsort((tokens, -values))
    return Candidates(tokens[order], values[order])
