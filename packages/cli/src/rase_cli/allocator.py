"""The memory that the C library keeps for later."""

import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGE_BYTES = _KEPT_BYTES = 4 << 20
_OWN_SETTINGS = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def give_large_blocks_back() -> None:
    """Let glibc return large blocks to the system when they are freed; to be called once, by a program.

    By itself it keeps, for each thread that has had one, about twice as much as the largest so far: long
    prompts would leave many times their size behind. Settings of the environment have priority. Does nothing
    with another C library.
    """
    if sys.platform != "linux" or any(os.environ.get(name) for name in _OWN_SETTINGS):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
