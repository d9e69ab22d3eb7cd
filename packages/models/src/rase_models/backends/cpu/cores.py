"""The processors and physical cores that this process may run on, as each system tells them.

On macOS the cores are those of the fast kind. Only Linux is verified.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_CORE_RELATION = 0
_RECORD_HEAD = struct.Struct("<II")  # relation and size of the record
_GROUP_COUNT = struct.Struct("<22xH")  # after the head: flags, class, reserved bytes; groups
_GROUP = struct.Struct("<QH6x")  # the processors of a core in one group


def usable_cores() -> int:
    """Return the number of physical cores; of processors, where the system does not tell cores."""
    processors = len(usable_processors())
    cores = _CORES.get(sys.platform, _unknown)()
    return max(1, min(cores or processors, processors))


def usable_processors() -> set[int]:
    """Return the numbers of the processors, of which a core may have several."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _unknown() -> int | None:
    return None


def _linux_cores() -> int | None:
    return len({_core_of(processor) for processor in usable_processors()})


def _core_of(processor: int) -> tuple[str, str]:
    """Return what identifies a processor's core: the list of processors that share it."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        return ("core", siblings.read_text(encoding="ascii").strip())
    except OSError:
        return ("processor", str(processor))


def _macos_cores() -> int | None:
    return _sysctl(b"hw.perflevel0.physicalcpu") or _sysctl(b"hw.physicalcpu")


def _sysctl(name: bytes) -> int | None:
    value, size = ctypes.c_int32(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int32))
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else value.value


def _windows_cores() -> int | None:
    if sys.platform != "win32":
        return None
    kernel, needed = ctypes.WinDLL("kernel32"), ctypes.c_uint32()
    kernel.GetLogicalProcessorInformationEx(_CORE_RELATION, None, ctypes.byref(needed))
    records = ctypes.create_string_buffer(needed.value)
    if not kernel.GetLogicalProcessorInformationEx(_CORE_RELATION, records, ctypes.byref(needed)):
        return None
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    process, allowed, all_there_are = kernel.GetCurrentProcess(), ctypes.c_size_t(), ctypes.c_size_t()
    kernel.GetProcessAffinityMask(
        ctypes.c_void_p(process), ctypes.byref(allowed), ctypes.byref(all_there_are)
    )
    return cores_in(records.raw, allowed.value)


def cores_in(records: bytes, allowed: int) -> int:
    """Count the cores in records of Windows' GetLogicalProcessorInformationEx, of 64-bit processes.

    Only those count that have one of the `allowed` processors, a bit mask; 0, which Windows says of a
    process in several groups of processors, allows all.
    """
    count = offset = 0
    while offset + _RECORD_HEAD.size <= len(records):
        relation, size = _RECORD_HEAD.unpack_from(records, offset)
        mask = _processors_of(records[offset + _RECORD_HEAD.size : offset + size])
        count += relation == _CORE_RELATION and (not allowed or bool(mask & allowed))
        offset += max(size, _RECORD_HEAD.size)
    return count


def _processors_of(core: bytes) -> int:
    """Return a bit mask of the processors of a core."""
    if len(core) < _GROUP_COUNT.size + _GROUP.size:
        return 0
    (groups,) = _GROUP_COUNT.unpack_from(core)
    found = _GROUP.iter_unpack(core[_GROUP_COUNT.size : _GROUP_COUNT.size + groups * _GROUP.size])
    return sum(mask for mask, _ in found)


_CORES: Mapping[str, Callable[[], int | None]] = {
    "linux": _linux_cores,
    "darwin": _macos_cores,
    "win32": _windows_cores,
}
"""By `sys.platform`."""
