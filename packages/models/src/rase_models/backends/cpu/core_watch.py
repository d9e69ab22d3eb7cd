"""Notices when something else takes cores, and then uses fewer threads.

A run is only as fast as its slowest thread: one that shares its core holds a chunk while it does not run, and
all others wait. So a core that is half taken makes two threads slower than one. The sign is processor time:
threads that have their cores get as much of it as the run took, since they spin while they wait.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from rase_models.backends.cpu.idle_time import idle_seconds

_WINDOW_SECONDS = 0.1
"""Runs that are judged together: many slices of the system's scheduler, and bursts of others' work."""
_LOST_CORES = 0.55
"""What the threads may lack of processor time, in cores.

A program that wants a core for good takes 0.8 of one from two threads on two cores. A server's own work
between steps, with its clients on the same machine, takes 0.2 to 0.5, and with one thread less is slower.
"""
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0
_SETTLED_SECONDS = 0.5
"""One more thread that works for so long was a good idea."""
_IDLE_CORES = 0.25
"""With less of them idle, one thread more has nowhere to run."""


@dataclass(slots=True)
class CoreWatch:
    """How many threads are worth using, out of `most`. Times are of any clock, in seconds.

    Trying one thread more costs time when the core is still taken. So it is not tried while no processor is
    idle, where the system tells that; a trial ends once it has lost what a window may lose, and the pauses
    between trials double.

    Attributes:
        most: how many threads there are.
        idle: tells for how long processors were idle, in all; None where that is not known.
        limit: how many threads are worth using.
    """

    most: int
    idle: Callable[[], float | None] = idle_seconds
    limit: int = field(default=0, init=False)
    _ran: float = 0.0
    _lost: float = 0.0
    _raised_at: float = -_SETTLED_SECONDS
    _retry_at: float = 0.0
    _pause: float = _FIRST_RETRY_SECONDS
    _idle_before: float | None = None
    _idle_since: float = 0.0

    def __post_init__(self) -> None:
        self.limit = self.most

    def threads(self, wanted: int, now: float) -> int:
        """Return how many threads, at most `wanted`, should take part in a run that begins now."""
        if self.limit < self.most and now >= self._retry_at:
            self._retry(now)
        return min(wanted, self.limit)

    def _retry(self, now: float) -> None:
        if not self._may_have_a_core(now):
            self._retry_at = now + _FIRST_RETRY_SECONDS
            return
        self.limit += 1
        self._raised_at, self._retry_at = now, now + self._pause
        self._ran = self._lost = 0.0

    def _may_have_a_core(self, now: float) -> bool:
        """Whether processors were idle since this was asked last, or nobody knows."""
        before, since = self._idle_before, self._idle_since
        self._look_at_idle_time(now)
        if before is None or self._idle_before is None:
            return True
        return self._idle_before - before >= _IDLE_CORES * (now - since)

    def _look_at_idle_time(self, now: float) -> None:
        self._idle_before, self._idle_since = self.idle(), now

    def saw(self, threads: int, seconds: float, processor_seconds: float, now: float) -> None:
        """Note that a run of so many threads took some time, and how much of it they were running."""
        self._ran += seconds
        self._lost += threads * seconds - processor_seconds
        has_lost = threads > 1 and self._lost > _LOST_CORES * max(self._ran, _WINDOW_SECONDS)
        if has_lost:
            self._use_fewer(threads - 1, now)
        if has_lost or self._ran >= _WINDOW_SECONDS:
            self._ran = self._lost = 0.0

    def _use_fewer(self, threads: int, now: float) -> None:
        failed_soon = now - self._raised_at < _SETTLED_SECONDS
        self._pause = min(2 * self._pause, _LONGEST_RETRY_SECONDS) if failed_soon else _FIRST_RETRY_SECONDS
        self.limit, self._retry_at = threads, now + self._pause
        self._look_at_idle_time(now)
