"""Finds the likeliest tokens of rows of logits, in compiled code."""

import numpy as np
from numpy.typing import NDArray
from rase_core.decoder import TopLogits
from rase_core.sampling.candidates import SHARE_SUMS

from rase_models.backends.cpu import abi, ranking_abi
from rase_models.backends.cpu.buffers import LANES
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary

RANK_ROWS = KernelKey("rank_rows")


class Ranker:
    """A LogitsRanker in the calling thread. Not thread-safe."""

    def __init__(self, library: KernelLibrary) -> None:
        library.require([RANK_ROWS])
        self._library, self._kernel = library, library.entry(RANK_ROWS)
        self._op = np.zeros(abi.OP_BYTES // abi.WORD, np.int64)
        self._rest = np.empty(LANES, np.float32)

    def top_logits(self, logits: NDArray[np.float32], k: int, *, with_totals: bool = False) -> TopLogits:
        """Return the `k` likeliest tokens, 1 to vocab, of each row float32 [rows, vocab]."""
        rows = logits if logits.strides[1] == logits.itemsize else np.ascontiguousarray(logits)
        count = len(rows)
        tokens, infinite = np.empty((count, k), np.int32), np.empty(count, np.int64)
        sums = np.empty((count, SHARE_SUMS), np.float64)
        heap = np.empty(k, np.int64)
        self._describe(rows, k, with_totals, tokens, infinite, sums, heap)
        self._kernel(0, 1, int(self._op.ctypes.data), 0)
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
        for offset, value in words.items():
            self._op[offset // abi.WORD] = value
