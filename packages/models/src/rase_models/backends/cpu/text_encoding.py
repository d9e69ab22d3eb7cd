"""Calls of a kernel that writes the ids of a text."""

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu.abi import WORD
from rase_models.backends.cpu.encoding_abi import IDS, LENGTH, MEMORY, TEXT, WRITTEN
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.words import Words, words_of


class TextEncoding:
    """A kernel with its settings; may be used from many threads. Knows llvmlite, and numba to compile."""

    def __init__(
        self,
        kernel: KernelKey,
        settings: Words,
        size: int,
        *,
        memory_bytes: int,
        most_ids: int,
        progress: Progress | None,
    ) -> None:
        """`size` is that of all words; `memory_bytes` and `most_ids` are for one unit of a text."""
        library = kernel_library()
        library.require([kernel], progress)
        self._kernel, self._kept = library.entry(kernel), settings
        self._words = words_of(settings, size)
        self._memory_bytes, self._most_ids = memory_bytes, most_ids

    def ids(self, units: NDArray[np.generic]) -> list[int] | None:
        """Return the ids of a text; None where no token stands for a part of it."""
        ids = np.empty(self._most_ids * len(units), np.int32)
        memory = np.empty(self._memory_bytes * (len(units) + 1) // WORD, np.int64)
        words = self._words.copy()
        for offset, value in (
            (TEXT, units.ctypes.data),
            (LENGTH, len(units)),
            (IDS, ids.ctypes.data),
            (MEMORY, memory.ctypes.data),
        ):
            words[offset // WORD] = value
        self._kernel(0, 1, int(words.ctypes.data), 0)
        written = int(words[WRITTEN // WORD])
        found: list[int] | None = None if written < 0 else ids[:written].tolist()
        return found
