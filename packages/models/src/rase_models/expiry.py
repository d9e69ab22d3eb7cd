"""Letting go of sessions when their time is over."""

import threading
import weakref
from collections.abc import Callable

from rase_core.fork_safe import ForkSafeEvent, ForkSafeLock

from rase_models.session import Session

Expire = Callable[[Session], bool]


class Expiry:
    """Watches sessions, in a thread that is there while one of them may expire, and never keeps one.

    Args:
        expire: called in that thread, with a session that was idle for as long as it may be; says whether it
            went. A method, which is not kept either.
    """

    def __init__(self, expire: Expire) -> None:
        self._expire = weakref.WeakMethod(expire)
        self._mutex = ForkSafeLock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._watcher: threading.Thread | None = None
        self._change = ForkSafeEvent()
        weakref.finalize(self, self._change.set)

    def watch(self, session: Session) -> None:
        """Look at a session that was used, or that may now stay for another time than before."""
        if session.expires_in is None:
            return
        with self._mutex:
            self._sessions.add(session)
            if self._watcher is not None and self._watcher.is_alive():  # not in a process that was forked
                self._change.set()
                return
            arguments = (weakref.ref(self), self._change)
            watcher = threading.Thread(target=_watch, args=arguments, name="rase-expiry", daemon=True)
            watcher.start()
            self._watcher = watcher

    def look(self) -> None:
        """Look again at what is watched, as when sessions have gone."""
        self._change.set()

    def ring(self) -> float | None:
        """Expire the sessions whose time is over, and return the seconds to the next; None for no next."""
        for session in self._all():
            if session.expires_in == 0 and session.is_idle:
                self._let_go(session)
        with self._mutex:
            left = [session.expires_in for session in self._sessions if session.is_idle]
            waits = [seconds for seconds in left if seconds is not None]
            if not waits:
                self._watcher = None
            return min(waits, default=None)

    def _let_go(self, session: Session) -> None:
        """Expire a session; one that was used in between is watched on."""
        expire = self._expire()
        if expire is not None and expire(session):
            with self._mutex:
                self._sessions.discard(session)

    def _all(self) -> list[Session]:
        with self._mutex:
            return list(self._sessions)


def _watch(expiry: "weakref.ref[Expiry]", change: ForkSafeEvent) -> None:
    while True:
        change.clear()
        watched = expiry()
        seconds = None if watched is None else watched.ring()
        del watched
        if seconds is None:
            return
        change.wait(seconds)
