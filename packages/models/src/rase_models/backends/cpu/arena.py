"""Memory for weights, activations and the KV cache: aligned, zeroed, never moved, in huge pages."""

import mmap

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64
HUGE_PAGE = 2 << 20
SLAB = 64 << 20


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _advise_huge_pages(memory: mmap.mmap) -> None:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None:
        return
    try:
        memory.madvise(advice)
    except OSError:
        return  # a kernel without huge pages: ordinary ones do


def _private_memory(nbytes: int) -> mmap.mmap:
    """Map fresh memory; a child process gets a copy, not a share."""
    try:
        if hasattr(mmap, "MAP_PRIVATE"):
            return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return mmap.mmap(-1, nbytes)
    except OSError as error:
        raise MemoryError(f"cannot have {nbytes} bytes of memory") from error


class Region:
    """Zeroed memory at a multiple of a cache line, or of 2 MB if it is that large.

    The memory goes back when the region is dropped; only addresses point into it, so its owner must outlive
    them.
    """

    def __init__(self, nbytes: int) -> None:
        alignment = HUGE_PAGE if nbytes >= HUGE_PAGE else CACHE_LINE
        memory = _private_memory(_round_up(nbytes, alignment) + alignment)
        if alignment == HUGE_PAGE:
            _advise_huge_pages(memory)
        whole = np.frombuffer(memory, np.uint8)
        start = -whole.ctypes.data % alignment
        self.bytes: NDArray[np.uint8] = whole[start : start + nbytes]
        self.address = int(self.bytes.ctypes.data)


class Arena:
    """Hands out aligned pieces of large regions. Pieces are never freed one by one."""

    def __init__(self, slab_bytes: int = SLAB) -> None:
        self._slab_bytes = slab_bytes
        self._regions: list[Region] = []
        self._used = 0

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return zeroed uint8 [nbytes], aligned to a cache line."""
        size = _round_up(max(nbytes, 1), CACHE_LINE)
        if not self._regions or self._used + size > self._regions[-1].bytes.size:
            self._regions.append(Region(max(size, self._slab_bytes)))
            self._used = 0
        start, self._used = self._used, self._used + size
        return self._regions[-1].bytes[start : start + nbytes]
