"""Locks, events and futures that a forked process finds free, whoever held them when it was forked."""

import os
import threading
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class ForkSafeLock:
    """A lock. Of a forked process, which has none of the other threads, no lock is left held by one of them.

    What it guards is as that thread left it, so each change under it should be a single step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _RENEWED.add(self)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, and say whether it was taken, as threading.Lock does."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give the lock up."""
        self._lock.release()

    def locked(self) -> bool:
        """Return whether a thread holds it."""
        return self._lock.locked()

    def renew(self) -> None:
        """Be free; for a process that has just been forked."""
        self._lock = threading.Lock()


class ForkSafeEvent:
    """A flag to wait for, as threading.Event is."""

    def __init__(self) -> None:
        self._is_set = False
        self._change = threading.Condition(ForkSafeLock())  # type: ignore[arg-type]  # acquire and release do

    def set(self) -> None:
        """Set the flag, which wakes those who wait."""
        with self._change:
            self._is_set = True
            self._change.notify_all()

    def clear(self) -> None:
        """Take the flag back."""
        with self._change:
            self._is_set = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the flag, at most so many seconds, and say whether it is set."""
        with self._change:
            return self._change.wait_for(lambda: self._is_set, seconds)


class ForkSafeFuture(Future[T]):
    """A future that a forked process can ask, too, though what was to come of it may never come there."""

    def __init__(self) -> None:
        super().__init__()
        _RENEWED.add(self)

    def renew(self) -> None:
        """Be free; for a process that has just been forked."""
        self._condition = threading.Condition()


_RENEWED: "weakref.WeakSet[ForkSafeLock | ForkSafeFuture[Any]]" = weakref.WeakSet()


def _renew() -> None:
    for held in list(_RENEWED):
        held.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
