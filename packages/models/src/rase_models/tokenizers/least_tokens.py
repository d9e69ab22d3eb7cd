"""How many tokens a text has at least, told without tokenising it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SLICE = 1 << 20  # bytes that are counted at a time
_SLACK = 1e-6  # relative; far more than what the sum of 256 products is off by
_CHARACTER = 4
"""The most bytes of a character, which an unknown token may stand for."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What may be missing of a text in its tokens.

    Attributes:
        factor: how many times longer a text that is not ASCII may be than what is left of it.
        dropped: the bytes that may be left out.
        space: what means a space, besides a space.
    """

    factor: int = 1
    dropped: bytes = b""
    space: str = " "


class LeastTokens:
    """A lower bound of the tokens of texts, by the longest token that each byte value occurs in.

    A token of n bytes counts 1 / n for each of them, so that the sum over a text of 1 / the longest for each
    byte is at most its number of tokens.
    """

    def __init__(self, size: int, bytes_of: Callable[[int], bytes], losses: Losses) -> None:
        space = losses.space.encode()
        self._losses = losses
        self._shares = 1 / _longest(bytes_of(token).replace(space, b" ") for token in range(size))
        self._shares[list(losses.dropped)] = 0

    def of(self, text: str) -> int:
        """Return a number of tokens that a text without lone surrogates has at least."""
        counts, factor = _counts(text.replace(self._losses.space, " ").encode()), self._losses.factor
        if factor == 1 or text.isascii():
            return math.ceil(float(counts @ self._shares) * (1 - _SLACK))
        # What is left may have other bytes.
        kept = int(counts[self._shares > 0].sum())
        least = float(self._shares[self._shares > 0].min(initial=1 / _CHARACTER))
        return math.ceil(kept / factor * least * (1 - _SLACK))


def _counts(data: bytes) -> NDArray[np.int64]:
    """Return how often each byte value occurs, int64 [256]."""
    values, counts = np.frombuffer(data, np.uint8), np.zeros(256, np.int64)
    for start in range(0, len(values), _SLICE):
        counts += np.bincount(values[start : start + _SLICE], minlength=256)
    return counts


def _longest(tokens: Iterable[bytes]) -> NDArray[np.float64]:
    """Return for each byte value, float64 [256], the length of the longest token that it occurs in."""
    longest = [_CHARACTER] * 256
    for token in tokens:
        for byte in set(token):
            longest[byte] = max(longest[byte], len(token))
    return np.array(longest, np.float64)
