"""Guesses of the tokens that come next, to be computed with the one that is known: prompt lookup decoding.

Saxena, "Prompt Lookup Decoding" (2023); Leviathan et al., "Fast Inference from Transformers via Speculative
Decoding" (2023).
"""

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]

_MOST_LEARNT = 8192
"""Tokens that are looked through at once, and all that are of a prompt: its last ones."""
_MOST_GUESSED = 7
_SHIFT = 32


class Drafts:
    """Guesses that a text goes on as it did after its last two tokens the last time.

    While guesses fail, fewer tokens are guessed, and none in the end: then it is only watched whether the
    first one would have come true.
    """

    def __init__(self) -> None:
        self._after: dict[int, int] = {}  # where it went on, by pair of tokens
        self._learnt = 0
        self._reach = _MOST_GUESSED
        self._guessed, self._guess = 0, np.empty(0, np.int32)  # after so many tokens

    def guess(self, tokens: Tokens, most: int) -> Tokens:
        """Return up to `most` tokens that may follow, none where the last two were not there before."""
        self._learn(tokens)
        self._judge(tokens)
        start = self._after.get(_pairs(tokens[-2:])[0]) if len(tokens) > 1 else None
        if start is None or most < 1:
            return tokens[:0]
        count = min(most, self._reach)
        self._guessed, self._guess = len(tokens), _going_on(tokens[start:], max(count, 1))
        return self._guess[:count]

    def _learn(self, tokens: Tokens) -> None:
        """Take the pairs that something follows."""
        first = max(self._learnt, len(tokens) - _MOST_LEARNT, 0)
        if len(tokens) - first > 2:
            self._after.update(zip(_pairs(tokens[first:-1]), range(first + 2, len(tokens)), strict=True))
            self._learnt = len(tokens) - 2

    def _judge(self, tokens: Tokens) -> None:
        """Guess more where all of the last guess came true, and less where not half of it did."""
        following = tokens[self._guessed : self._guessed + len(self._guess)]
        if not len(following):
            return
        hits = int(np.cumprod(following == self._guess[: len(following)]).sum())
        if hits == len(following):
            self._reach = min(2 * self._reach + 1, _MOST_GUESSED)
        elif 2 * hits < len(self._guess):
            self._reach //= 2
        self._guess = tokens[:0]


def _going_on(tokens: Tokens, count: int) -> Tokens:
    """Return the first so many tokens, over and over where there are fewer."""
    return np.resize(tokens, count) if len(tokens) < count else tokens[:count]


def _pairs(tokens: Tokens) -> list[int]:
    wide = tokens.astype(np.int64)
    pairs: list[int] = ((wide[:-1] << _SHIFT) | wide[1:]).tolist()
    return pairs
