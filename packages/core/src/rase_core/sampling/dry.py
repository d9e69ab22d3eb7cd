"""DRY ("don't repeat yourself"): a penalty on tokens that would continue a repetition.

Semantics of p-e-w's proposal (text-generation-webui, pull request 5677) as llama.cpp applies it.
"""

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Logits

_MOST = 1e30  # a penalty that is as good as infinite and leaves float32 logits finite


class DryPenalty:
    """Lowers the logit of each token that would continue a repetition.

    When the last `length` tokens occurred before, followed by a token t, and `length >= allowed_length`, the
    logit of t falls by `multiplier * base ** (length - allowed_length)`, for the longest such length. Only
    the last `last_n` tokens (-1: all) count; a repetition does not reach across a breaker token, and breakers
    are not penalised.
    """

    def __init__(
        self,
        multiplier: float,
        base: float,
        allowed_length: int,
        last_n: int,
        breakers: Set[int] = frozenset(),
    ) -> None:
        self._multiplier, self._base, self._allowed = multiplier, base, allowed_length
        self._last_n, self._breakers = last_n, breakers
        self._tokens = np.empty(256, np.int64)
        # [i]: how many tokens that end with token i are also the last ones of the sequence
        self._lengths = np.zeros(256, np.int64)
        self._count = 0

    def accept_all(self, tokens: Sequence[int]) -> None:
        """Take in a prompt, in time linear in its length; only for an empty sequence."""
        kept = tokens if self._last_n < 0 else tokens[max(len(tokens) - self._last_n, 0) :]
        self._count = len(kept)
        self._tokens = np.concatenate((np.array(kept, np.int64), np.empty(256, np.int64)))
        self._lengths = np.zeros(self._tokens.size, np.int64)
        reversed_tokens = list(kept)[::-1]
        reach = next((i for i, token in enumerate(reversed_tokens) if token in self._breakers), self._count)
        common = np.array(_common_prefixes(reversed_tokens), np.int64)[::-1]
        self._lengths[: self._count] = np.minimum(common, reach)

    def accept(self, token: int) -> None:
        """Append a token: a match ends with it where the same token follows a match that ended before."""
        self._make_room()
        n = self._count
        self._tokens[n] = token
        if token in self._breakers:
            self._lengths[:n] = 0
        else:
            longer = np.where(self._tokens[1:n] == token, self._lengths[: n - 1] + 1, 0) if n > 1 else None
            self._extend(longer, token)
        self._count = n + 1

    def tokens(self) -> NDArray[np.intp]:
        """Return the tokens whose logits `apply` may change."""
        return np.array(list(self._continuations()), np.intp)

    def apply(self, logits: Logits) -> None:
        """Change logits, float32 [vocab], in place."""
        for token, length in self._continuations().items():
            if token not in self._breakers:
                logits[token] -= np.float32(self._penalty(length))

    def _extend(self, longer: NDArray[np.int64] | None, token: int) -> None:
        n = self._count
        if longer is not None:
            self._lengths[1:n] = longer
        if n > 0:
            self._lengths[0] = int(self._tokens[0] == token)
        self._lengths[n] = 0

    def _continuations(self) -> dict[int, int]:
        start = 0 if self._last_n < 0 else max(self._count - self._last_n, 0)
        lengths = self._lengths[start : max(self._count - 1, start)]
        lengths = np.minimum(lengths, np.arange(1, lengths.size + 1))
        longest: dict[int, int] = {}
        for i in np.flatnonzero(lengths >= self._allowed).tolist():
            token = int(self._tokens[start + i + 1])
            longest[token] = max(longest.get(token, 0), int(lengths[i]))
        return longest

    def _penalty(self, length: int) -> float:
        penalty = self._multiplier
        for _ in range(length - self._allowed):
            if penalty >= _MOST or self._base == 1.0:
                break
            penalty *= self._base  # not `**`, which differs between platforms
        return min(penalty, _MOST)

    def _make_room(self) -> None:
        if self._count == self._tokens.size:
            self._tokens = np.concatenate((self._tokens, np.empty_like(self._tokens)))
            self._lengths = np.concatenate((self._lengths, np.zeros_like(self._lengths)))


def _common_prefixes(tokens: list[int]) -> list[int]:
    """Return how many tokens from i on equal those from 0 on, 0 for i = 0 (the Z function)."""
    lengths = [0] * len(tokens)
    left = right = 0
    for i in range(1, len(tokens)):
        length = min(lengths[i - left], right - i) if i < right else 0
        while i + length < len(tokens) and tokens[length] == tokens[i + length]:
            length += 1
        lengths[i] = length
        if i + length > right:
            left, right = i, i + length
    return lengths
