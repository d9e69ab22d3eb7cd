"""Repacks matrices of a file into the form that the kernels take, in compiled code."""

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary
from rase_models.backends.cpu.packing import WeightFormat

_MOST_THREADS = 4


class Repacker:
    """Threads that repack one matrix together; a context manager.

    One core is left to whoever hashes the file meanwhile. These are not the team's threads: those wait for
    each other by spinning, which costs more than it gains when a core is taken.
    """

    def __init__(self, library: KernelLibrary, threads: int, progress: Progress | None = None) -> None:
        self._library, self._progress = library, progress
        self._parts = max(1, min(_MOST_THREADS, threads - 1))
        self._executor = ThreadPoolExecutor(self._parts, thread_name_prefix="rase-repack")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown()

    def repack(
        self,
        form: WeightFormat,
        source: NDArray[np.uint8],
        target: NDArray[np.uint8],
        rows: int,
        columns: int,
    ) -> None:
        """Repack a matrix of the file's form, uint8, into its packed form."""
        key = KernelKey("repack_matrix", (form.name,))
        self._library.require([key], self._progress)
        kernel = self._library.entry(key)
        op = np.zeros(abi.OP_BYTES // abi.WORD, np.int64)
        for offset, value in (
            (abi.X, source.ctypes.data),
            (abi.W, target.ctypes.data),
            (abi.N, rows),
            (abi.K, columns),
        ):
            op[offset // abi.WORD] = value
        address = int(op.ctypes.data)
        if self._parts == 1:
            kernel(0, 1, address, 0)
            return
        parts = [self._executor.submit(kernel, part, self._parts, address, 0) for part in range(self._parts)]
        for part in parts:
            part.result()
