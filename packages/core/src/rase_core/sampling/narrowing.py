"""Which of the likeliest tokens of many rows are left to draw from, and the draw: `Candidates` of all rows.

Every number has the bits that `Candidates` gives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase_core.sampling.candidates import Candidates
from rase_core.sampling.config import GenerationConfig
from rase_core.sampling.exponential import exponential


@dataclass(frozen=True, slots=True)
class Draw:
    """How a row's token is drawn: by its config, and two numbers in [0, 1), the second for XTC."""

    config: GenerationConfig
    uniform: float
    chance: float

    @property
    def excludes_top(self) -> bool:
        """Whether XTC leaves the likeliest out."""
        return self.chance < self.config.xtc_probability

    @property
    def is_plain(self) -> bool:
        """Whether the token is drawn as without XTC."""
        return not self.excludes_top and (self.config.narrows or not self.config.xtc_probability)


class Narrowing:
    """Rows of the likeliest tokens, each drawn from in its own way.

    tokens: int32 [rows, k], the likeliest first. logits: float32 [rows, k]. totals: float64 [rows], what the
    shares of all tokens of a row add up to; only rows that have a `top_p` and no `top_k` look at it.
    """

    def __init__(
        self,
        tokens: NDArray[np.int32],
        logits: NDArray[np.float32],
        totals: NDArray[np.float64],
        draws: Sequence[Draw],
    ) -> None:
        self._tokens, self._draws = tokens, draws
        self._logits = logits.astype(np.float64)
        self._below = self._logits - self._logits[:, :1]
        self._weights = exponential(self._below.reshape(-1)).reshape(self._below.shape)
        self._cumulative = np.cumsum(self._weights, axis=1)
        configs = [draw.config for draw in draws]
        self._width = tokens.shape[1]
        self._columns = np.arange(self._width)
        self._kept = np.array([min(config.top_k or self._width, self._width) for config in configs])
        self._is_ranked = np.array([config.top_k > 0 for config in configs])
        self._top_p = np.array([config.top_p for config in configs])
        self._min_p = np.array([config.min_p for config in configs])
        self._target = self._top_p * np.where(self._is_ranked, self._last_of(self._cumulative), totals)

    def is_enough(self) -> NDArray[np.bool_]:
        """Tell which rows have all tokens there are to draw from, bool [rows]."""
        has_top_p = self._last_of(self._cumulative) >= self._target
        has_min_p = self._last_of(self._weights) < self._min_p
        return self._is_ranked | np.where(self._top_p < 1, has_top_p, has_min_p)

    def tokens(self) -> list[int]:
        """Draw a token of each row."""
        counts = self._counts()
        below = self._below[:, : counts.max()]
        temperatures = np.array([draw.config.temperature for draw in self._draws])[:, None]
        uniform = np.array([draw.uniform for draw in self._draws])
        with np.errstate(over="ignore"):
            weights = exponential((below / temperatures).reshape(-1)).reshape(below.shape)
        cumulative = np.cumsum(weights, axis=1)
        rows = np.arange(len(counts))
        limits = (uniform * cumulative[rows, counts - 1])[:, None]
        passed = ((cumulative <= limits) & (np.arange(below.shape[1]) < counts[:, None])).sum(axis=1)
        tokens: list[int] = self._tokens[rows, np.minimum(passed, counts - 1)].tolist()
        for row, draw in enumerate(self._draws):
            if draw.excludes_top:
                tokens[row] = self._without_top(row, int(counts[row]), draw)
        return tokens

    def _last_of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value of each row's last candidate."""
        last: NDArray[np.float64] = values[np.arange(len(values)), self._kept - 1]
        return last

    def _counts(self) -> NDArray[np.intp]:
        """Return how many of the likeliest are left of each row, at least one."""
        before = ((self._cumulative < self._target[:, None]) & self._within(self._kept)).sum(axis=1) + 1
        has_cut = self._is_ranked | (self._top_p < 1)
        counts = np.where(has_cut, np.minimum(before, self._kept), self._kept)
        likely = (self._weights >= self._min_p[:, None]) & self._within(counts)
        left: NDArray[np.intp] = np.maximum(likely.sum(axis=1), 1)
        return left

    def _within(self, counts: NDArray[np.intp]) -> NDArray[np.bool_]:
        within: NDArray[np.bool_] = self._columns < counts[:, None]
        return within

    def _without_top(self, row: int, count: int, draw: Draw) -> int:
        candidates = Candidates(self._tokens[row, :count].astype(np.intp), self._logits[row, :count])
        narrowed = candidates.exclude_top(draw.config.xtc_threshold)
        return narrowed.draw(draw.config.temperature, draw.uniform)
