"""SentencePiece's normalisation in compiled code."""

from collections.abc import Sequence

import numpy as np
from rase_core.progress import Progress

from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.trie_abi import (
    REPLACEMENT_BYTES,
    REPLACEMENTS,
    REPLACING_BYTES,
    SOURCE,
    SOURCE_BYTES,
    TARGET,
    TARGET_BYTES,
    UNIT_COUNT,
    UNITS,
    WORD,
)

_KERNEL = KernelKey("replace_characters")


class Replacing:
    """A double array and the texts that it leads to (see `charsmap`); may be used from many threads."""

    def __init__(self, units: Sequence[int], texts: bytes, progress: Progress | None = None) -> None:
        library = kernel_library()
        library.require([_KERNEL], progress)
        self._kernel = library.entry(_KERNEL)
        self._units, self._texts = np.array(units, np.uint32), np.frombuffer(texts + b"\0", np.uint8)
        self._words = np.zeros(REPLACING_BYTES // WORD, np.int64)
        self._words[UNITS // WORD] = self._units.ctypes.data
        self._words[UNIT_COUNT // WORD] = len(units)
        self._words[REPLACEMENTS // WORD] = self._texts.ctypes.data
        self._words[REPLACEMENT_BYTES // WORD] = len(texts)

    def of(self, data: bytes) -> bytes:
        """Return what becomes of a text; both are UTF-8, where the replacements are."""
        room = 2 * len(data)
        while True:
            found, size = self._replaced(data, room)
            if size <= room:
                return found[:size].tobytes()
            room = size

    def _replaced(self, data: bytes, room: int) -> "tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], int]":
        """Return what becomes of a text as far as there is room for it, and how many bytes it has in all."""
        source, target, words = np.frombuffer(data, np.uint8), np.empty(room, np.uint8), self._words.copy()
        words[SOURCE // WORD], words[SOURCE_BYTES // WORD] = source.ctypes.data, len(data)
        words[TARGET // WORD], words[TARGET_BYTES // WORD] = target.ctypes.data, room
        self._kernel(0, 1, int(words.ctypes.data), 0)
        return target, int(words[TARGET_BYTES // WORD])
