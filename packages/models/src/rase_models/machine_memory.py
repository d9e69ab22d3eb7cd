"""How much memory this process may use."""

import os
import sys
from pathlib import Path

_CGROUP_FILES = ("memory.max", "memory/memory.limit_in_bytes")
_UNKNOWN = 4 << 30


def machine_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes of the machine's memory, or of the control group's limit when that is less.

    A system that does not say is taken for one of 4 GB.
    """
    return min([_physical_memory() or _UNKNOWN, *_limits(cgroups)])


def _physical_memory() -> int | None:
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _limits(cgroups: Path) -> list[int]:
    limits = []
    for name in _CGROUP_FILES:
        try:
            limits.append(int((cgroups / name).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no control groups, or "max"
            continue
    return [limit for limit in limits if limit > 0]


def _windows_memory() -> int | None:
    import ctypes

    if sys.platform != "win32":
        return None
    kilobytes = ctypes.c_ulonglong()
    found = ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024 if found else None
