"""When the time of something asked is over."""

from dataclasses import dataclass, field
from threading import TIMEOUT_MAX
from time import perf_counter

from rase_core.errors import InvalidParameter, RequestTimeout


@dataclass(frozen=True, slots=True)
class Deadline:
    """The most seconds from the moment of asking to the end; None for as many as it takes.

    `asked` is that moment by `time.perf_counter`. Raises InvalidParameter for no time at all.
    """

    timeout: float | None = None
    asked: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        check_timeout(self.timeout)

    def is_past(self, now: float) -> bool:
        """Whether the time is over at a moment of the same clock."""
        return self.timeout is not None and now - self.asked > self.timeout

    def left(self) -> float:
        """Return for how many seconds a thread may wait. Raises RequestTimeout when there are none left."""
        now = perf_counter()
        if self.timeout is not None and self.is_past(now):
            raise RequestTimeout(self.timeout)
        return waitable(waitable(self.timeout) - (now - self.asked))


def check_timeout(seconds: float | None) -> None:
    """Raise InvalidParameter for what leaves no time: nothing, less, or no number."""
    if seconds is not None and not seconds > 0:
        raise InvalidParameter("timeout", seconds, "more than 0 seconds")


def waitable(seconds: float | None) -> float:
    """Return seconds that a thread can wait: 0 for less, and a few hundred years for more and for None."""
    return max(min(TIMEOUT_MAX if seconds is None else seconds, TIMEOUT_MAX), 0.0)
