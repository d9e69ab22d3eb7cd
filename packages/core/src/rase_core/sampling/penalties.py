"""Changes to logits: bias, forbidden words, and penalties on the tokens so far."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Logits


class RepetitionPenalty:
    """Makes recent tokens less likely.

    A token that occurred `count` times among the last `last_n` (-1: all) of prompt and answer has its logit
    divided by `repetition` when positive and multiplied when not, then lowered by `count * frequency +
    presence`.
    """

    def __init__(self, repetition: float, presence: float, frequency: float, last_n: int) -> None:
        self._repetition, self._presence, self._frequency = repetition, presence, frequency
        self._last_n = last_n
        self._recent: deque[int] = deque()
        self._counts: Counter[int] = Counter()

    def accept(self, token: int) -> None:
        """Count a token, and forget the one that leaves the window."""
        self._counts[token] += 1
        if self._last_n < 0:
            return
        self._recent.append(token)
        if len(self._recent) > self._last_n:
            self._forget(self._recent.popleft())

    def tokens(self) -> NDArray[np.intp]:
        """Return the tokens whose logits `apply` changes."""
        return np.fromiter(self._counts.keys(), np.intp, len(self._counts))

    def apply(self, logits: Logits) -> None:
        """Change logits, float32 [vocab], in place."""
        if not self._counts:
            return
        tokens = self.tokens()
        counts = np.fromiter(self._counts.values(), np.float64, len(self._counts))
        values = logits[tokens].astype(np.float64)
        scaled = np.where(values > 0, values / self._repetition, values * self._repetition)
        logits[tokens] = scaled - (counts * self._frequency + self._presence)

    def _forget(self, token: int) -> None:
        self._counts[token] -= 1
        if not self._counts[token]:
            del self._counts[token]


class Bias:
    """Adds a number to the logits of some tokens; minus infinity forbids them."""

    def __init__(self, bias: Mapping[int, float]) -> None:
        self._tokens = np.array(list(bias.keys()), np.intp)
        values = np.array(list(bias.values()), np.float64)
        # No float32 can be so low: it forbids, as minus infinity does.
        self._values = np.where(values < np.finfo(np.float32).min / 2, -np.inf, values)

    def accept(self, token: int) -> None:
        """Do nothing: a bias is the same for every token."""

    def tokens(self) -> NDArray[np.intp]:
        """Return the tokens whose logits `apply` changes."""
        return self._tokens

    def apply(self, logits: Logits) -> None:
        """Change logits, float32 [vocab], in place."""
        logits[self._tokens] = logits[self._tokens] + self._values


class BadWords:
    """Forbids the last token of each sequence wherever the rest of it stands before."""

    def __init__(self, words: Sequence[Sequence[int]]) -> None:
        self._words = tuple((tuple(word[:-1]), word[-1]) for word in words)
        self._lasts = np.array([last for _, last in self._words], np.intp)
        self._recent: deque[int] = deque(maxlen=max((len(start) for start, _ in self._words), default=0))

    def accept(self, token: int) -> None:
        """Remember a token."""
        self._recent.append(token)

    def tokens(self) -> NDArray[np.intp]:
        """Return the tokens whose logits `apply` may change."""
        return self._lasts

    def apply(self, logits: Logits) -> None:
        """Change logits, float32 [vocab], in place."""
        recent = tuple(self._recent)
        for start, last in self._words:
            if not start or recent[-len(start) :] == start:
                logits[last] = -np.inf
