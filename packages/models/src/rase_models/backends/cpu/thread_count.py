"""How many threads a runner uses: the cores it may use, unless it is told otherwise."""

import os
from dataclasses import dataclass
from pathlib import Path

from rase_core.errors import BackendFailure

from rase_models.backends.base import ThreadCounts, Threads
from rase_models.backends.cpu.cores import usable_cores, usable_processors

_ALWAYS_ALLOWED, _PER_PROCESSOR = 16, 4
_MANY_CORES = 12
_SPARED = 4
"""On a large machine a few cores stay free in decoding: one busy neighbour would hold up every step."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process may use: physical cores, processors, and a limit on their time, in cores, or None."""

    cores: int
    processors: int
    quota: float | None = None

    @classmethod
    def here(cls) -> "Machine":
        """Return what this process may use now."""
        return cls(usable_cores(), len(usable_processors()), cpu_quota())

    @property
    def most_threads(self) -> int:
        """The most threads that may be asked for: many more than processors only wait for one another."""
        return max(_ALWAYS_ALLOWED, _PER_PROCESSOR * self.processors)


def thread_counts(threads: Threads = None, machine: Machine | None = None) -> tuple[int, int]:
    """Return the numbers of threads that decode and that prefill.

    They are the argument's, else RASE_NUM_THREADS, else those that suit the machine's cores.

    Raises:
        BackendFailure: a number is not positive, or above `most_threads`.
    """
    machine = Machine.here() if machine is None else machine
    wanted = threads if isinstance(threads, ThreadCounts) else ThreadCounts(threads)
    decode = _wanted_to_decode(wanted, machine)
    name = "the number of threads"
    prefill = decode if wanted.prefill is None else _checked(wanted.prefill, name, machine)
    if decode is None:
        decode = default_thread_count(machine.cores, machine.quota)
        prefill = _within(machine.quota, machine.cores) if prefill is None else prefill
    return decode, prefill or decode


def count_named_by(variable: str) -> int | None:
    """Return the number of threads or processes that an environment variable says, None where it is not set.

    Raises BackendFailure for what is no such number.
    """
    text = os.environ.get(variable)
    return _checked(text, variable, Machine.here()) if text else None


def _wanted_to_decode(wanted: ThreadCounts, machine: Machine) -> int | None:
    if wanted.decode is not None:
        return _checked(wanted.decode, "the number of threads", machine)
    text = os.environ.get("RASE_NUM_THREADS")
    return _checked(text, "RASE_NUM_THREADS", machine) if text else None


def _checked(value: int | str, name: str, machine: Machine) -> int:
    try:
        count = int(value)
    except ValueError:
        count = 0
    if not 1 <= count <= machine.most_threads:
        raise BackendFailure(
            f"{name} must be a whole number from 1 to {machine.most_threads}, not {str(value)[:20]!r}"
        )
    return count


def most_threads() -> int:
    """Return the most threads that may be asked for here."""
    return Machine.here().most_threads


def default_thread_count(cores: int, quota: float | None) -> int:
    """Return the threads that decode on so many physical cores, with a limit on processor time, in cores."""
    return _within(quota, cores - _SPARED if cores >= _MANY_CORES else cores)


def _within(quota: float | None, count: int) -> int:
    return max(1, count if quota is None else min(count, int(quota)))


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
