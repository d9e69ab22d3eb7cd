"""Finds the likeliest tokens of rows of logits, in compiled code."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import Draws, TopLogits
from rase_core.sampling.candidates import SHARE_SUMS

from rase_models.backends.cpu import abi, drawing_abi, ranking_abi
from rase_models.backends.cpu.buffers import LANES
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary

RANKER_KERNELS = RANK_ROWS, DRAW_ROWS = KernelKey("rank_rows"), KernelKey("draw_rows")


class Ranker:
    """A LogitsRanker in the calling thread. Not thread-safe."""

    def __init__(self, library: KernelLibrary) -> None:
        library.require(RANKER_KERNELS)
        self._library = library
        self._rank, self._draw = library.entry(RANK_ROWS), library.entry(DRAW_ROWS)
        self._op = np.zeros(abi.OP_BYTES // abi.WORD, np.int64)
        self._rest = np.empty(LANES, np.float32)
        self._memory = np.empty(0, np.int64)

    def top_logits(self, logits: NDArray[np.float32], k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""
        rows = logits if logits.strides[1] == logits.itemsize else np.ascontiguousarray(logits)
        count = len(rows)
        tokens, infinite = np.empty((count, k), np.int32), np.empty(count, np.int64)
        sums = np.empty((count, SHARE_SUMS), np.float64)
        heap = np.empty(k, np.int64)
        self._describe(rows, k, with_totals, tokens, infinite, sums, heap)
        self._rank(0, 1, int(self._op.ctypes.data), 0)
        return TopLogits(tokens, infinite, np.cumsum(sums, axis=1)[:, -1] if with_totals else None)

    def _describe(
        self,
        rows: NDArray[np.float32],
        k: int,
        with_totals: bool,
        tokens: NDArray[np.int32],
        infinite: NDArray[np.int64],
        sums: NDArray[np.float64],
        heap: NDArray[np.int64],
    ) -> None:
        words = {
            abi.X: rows.ctypes.data,
            abi.X_STRIDE: rows.strides[0],
            abi.N: rows.shape[1],
            ranking_abi.RANKED_ROWS: len(rows),
            ranking_abi.RANKED: k,
            ranking_abi.RANK_TOKENS: tokens.ctypes.data,
            ranking_abi.RANK_INFINITE: infinite.ctypes.data,
            ranking_abi.RANK_SUMS: sums.ctypes.data if with_totals else 0,
            ranking_abi.RANK_HEAP: heap.ctypes.data,
            ranking_abi.RANK_REST: self._rest.ctypes.data,
        }
        self._write(words)

    def draw(self, logits: NDArray[np.float32], draws: Draws) -> NDArray[np.int32]:
        """Draw tokens, int32 [draws], from logits float32 [rows, vocab]."""
        rows = logits if logits.strides[1] == logits.itemsize else np.ascontiguousarray(logits)
        count, size = len(draws.rows), rows.shape[1]
        tokens, ways = np.empty(count, np.int32), _ways(draws)
        if self._memory.nbytes < drawing_abi.memory_bytes(size):
            self._memory = np.empty(drawing_abi.memory_bytes(size) // abi.WORD, np.int64)
        words = {
            abi.X: rows.ctypes.data,
            abi.X_STRIDE: rows.strides[0],
            abi.N: size,
            drawing_abi.DRAWN: count,
            drawing_abi.DRAWN_ROWS: draws.rows.ctypes.data,
            drawing_abi.DRAWN_TOKENS: tokens.ctypes.data,
            drawing_abi.DRAW_WAYS: ways.ctypes.data,
            drawing_abi.DRAW_MEMORY: self._memory.ctypes.data,
            drawing_abi.DRAW_PLACES: drawing_abi.places_for(size),
        }
        self._write(words)
        self._draw(0, 1, int(self._op.ctypes.data), 0)
        return tokens

    def _write(self, words: Mapping[int, int]) -> None:
        for offset, value in words.items():
            self._op[offset // abi.WORD] = value


def _ways(draws: Draws) -> NDArray[np.float64]:
    """Return how tokens are drawn as the kernel reads it, float64 [draws, WAY_NUMBERS]."""
    is_nucleus = (draws.top_k == 0) & (draws.top_p < 1)
    columns = {
        drawing_abi.WAY_TOP_K: draws.top_k,
        drawing_abi.WAY_TARGET: np.where(is_nucleus, draws.top_p * draws.totals, np.inf),
        drawing_abi.WAY_TOP_P: draws.top_p,
        drawing_abi.WAY_MIN_P: draws.min_p,
        drawing_abi.WAY_TEMPERATURE: draws.temperature,
        drawing_abi.WAY_UNIFORM: draws.uniform,
    }
    ways = np.empty((len(draws.rows), drawing_abi.WAY_NUMBERS), np.float64)
    for offset, values in columns.items():
        ways[:, offset // abi.WORD] = values
    return ways
