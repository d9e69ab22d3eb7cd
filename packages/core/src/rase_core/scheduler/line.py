"""The requests that wait for their turn, first come first served."""

import threading
from collections import deque
from collections.abc import Callable

from rase_core.errors import QueueFull, ShuttingDown
from rase_core.scheduler.sequence import Sequence


class WaitingLine:
    """A bounded queue between the threads that ask and the one that serves.

    Besides `limit` requests, as many may be in line as there are `free` places to go to from it; the thread
    that serves keeps that number up to date.
    """

    def __init__(self, limit: int, free: int) -> None:
        self._limit = limit
        self.free = free
        self._waiting: deque[Sequence] = deque()
        self._is_closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, sequence: Sequence) -> None:
        """Stand a request in line. Raises QueueFull, and ShuttingDown after `close`."""
        with self._changed:
            if self._is_closed:
                raise ShuttingDown
            if len(self._waiting) >= self._limit + self.free:
                raise QueueFull(self._limit)
            self._waiting.append(sequence)
            self._changed.notify()

    def first(self) -> Sequence | None:
        """Return who is next."""
        with self._changed:
            return self._waiting[0] if self._waiting else None

    def take(self) -> None:
        """Let who is next out of the line."""
        with self._changed:
            self._waiting.popleft()

    def remove(self, is_over: Callable[[Sequence], bool]) -> list[Sequence]:
        """Let those out of the line that need not wait any more, and return them."""
        with self._changed:
            gone = [sequence for sequence in self._waiting if is_over(sequence)]
            for sequence in gone:
                self._waiting.remove(sequence)
        return gone

    def wait(self) -> bool:
        """Wait until somebody is in line; False when it is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return bool(self._waiting)

    def close(self) -> None:
        """Let nobody else in."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
