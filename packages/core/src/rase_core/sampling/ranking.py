"""The likeliest tokens of many rows of logits at once, as numpy finds them."""

import numpy as np
from numpy.typing import NDArray

from rase_core.decoder import Draws, Logits, TopLogits
from rase_core.sampling.candidates import draw_from_all, narrowed, top_k, total_share


class NumpyRanker:
    """Ranks logits where the backend does not; what it finds is what every LogitsRanker finds."""

    def top_logits(self, logits: Logits, k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""
        if k == 1:
            tokens = logits.argmax(axis=1).astype(np.int32)[:, None]
        else:
            tokens = np.array([_likeliest(row, k) for row in logits], np.int32).reshape(len(logits), k)
        infinite = np.count_nonzero(~np.isfinite(logits), axis=1).astype(np.int64)
        totals = np.array([_total(row) for row in logits], np.float64) if with_totals else None
        return TopLogits(tokens, infinite, totals)

    def draw(self, logits: Logits, draws: Draws) -> NDArray[np.int32]:
        """Draw tokens, int32 [draws], from logits float32 [rows, vocab]."""
        ways = zip(draws.top_k.tolist(), draws.top_p.tolist(), draws.min_p.tolist(), strict=True)
        numbers = zip(draws.temperature.tolist(), draws.uniform.tolist(), strict=True)
        drawn = zip(draws.rows.tolist(), ways, numbers, strict=True)
        return np.array([_drawn(logits[row], way, *number) for row, way, number in drawn], np.int32)


def _likeliest(row: Logits, k: int) -> NDArray[np.intp]:
    return np.arange(k) if np.isnan(row).any() else top_k(row, k).tokens


def _total(row: Logits) -> float:
    return total_share(row) if np.isfinite(row.max()) else np.nan


def _drawn(row: Logits, way: tuple[int, float, float], temperature: float, uniform: float) -> int:
    k, top_p, min_p = way
    if not k and top_p == 1 and not min_p:
        return draw_from_all(row, temperature, uniform)
    return narrowed(row, k, top_p, min_p).draw(temperature, uniform)
