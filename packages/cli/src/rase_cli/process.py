"""What the system knows about this process."""

import os
import sys
import time
from pathlib import Path

_IMPORTED = time.perf_counter()


def process_age() -> float:
    """Return the seconds since this process began, to a hundredth.

    Where the system has no /proc, the seconds since this module was imported, which are a little fewer.
    """
    try:
        status = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(status.rpartition(")")[2].split()[19])  # starttime of proc(5), counted after the name
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return time.perf_counter() - _IMPORTED


def peak_memory_mb() -> float | None:
    """Return the most resident memory of this process so far, in MB of 1,000,000 bytes; None on Windows."""
    kilobytes = _peak_on_linux()
    if kilobytes is not None:
        return round(kilobytes * 1024 / 1e6, 1)
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def _peak_on_linux() -> int | None:
    """Return the peak of this program alone; `getrusage` tells that of the one that started it, if higher."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return None
