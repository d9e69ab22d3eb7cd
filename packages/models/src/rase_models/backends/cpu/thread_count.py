"""How many threads a runner uses: the physical cores it may use, unless it is told otherwise."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rase_core.errors import BackendFailure

_MANY_CORES = 12
_SPARED = 4
"""On a large machine a few cores stay free: one busy neighbour would hold up every step."""


def thread_count(threads: int | None = None) -> int:
    """Return the number of threads: the argument, else RASE_NUM_THREADS, else by the machine's cores.

    Raises:
        BackendFailure: the number is not positive.
    """
    if threads is not None:
        return _checked(threads, "the number of threads")
    if text := os.environ.get("RASE_NUM_THREADS"):
        return _checked(text, "RASE_NUM_THREADS")
    return default_thread_count(usable_cores(), cpu_quota())


def _checked(value: int | str, name: str) -> int:
    try:
        count = int(value)
    except ValueError:
        count = 0
    if count < 1:
        raise BackendFailure(f"{name} must be a whole number of at least 1, not {value!r}")
    return count


def default_thread_count(cores: int, quota: float | None) -> int:
    """Return the threads for so many usable physical cores and a limit on processor time, in cores."""
    count = cores - _SPARED if cores >= _MANY_CORES else cores
    return max(1, min(count, int(quota)) if quota is not None else count)


def usable_cores() -> int:
    """Return the number of physical cores among the processors that this process may run on."""
    processors = _allowed_processors()
    if sys.platform == "linux":
        return len({_core_of(processor) for processor in processors}) or 1
    return max(1, len(processors))


def _allowed_processors() -> Iterable[int] | set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _core_of(processor: int) -> tuple[str, str]:
    """Return what identifies a processor's core: the list of processors that share it."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        return ("core", siblings.read_text(encoding="ascii").strip())
    except OSError:
        return ("processor", str(processor))


def cpu_quota(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """Return the limit on processor time that a control group sets, in cores, or None."""
    limits = [limit for folder in _groups(root, membership) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups(root: Path, membership: Path) -> list[Path]:
    """Return the folders of this process's control group and of those around it, version 2 and 1."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    folders = [root, root / "cpu"]
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        base = root / "cpu" if "cpu" in controllers.split(",") else root
        inner = base / path.lstrip("/")
        folders += [inner, *(parent for parent in inner.parents if root in parent.parents)]
    return folders


def _limit(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None  # no limit, or "max"
