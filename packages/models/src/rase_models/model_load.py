"""A model on its way into memory."""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress

from rase_core.deadline import Deadline, waitable
from rase_core.errors import ShuttingDown
from rase_core.fork_safe import ForkSafeFuture
from rase_core.progress import Progress, ProgressEvent
from rase_core.tracebacks import caught, without_locals

from rase_models.room import Check, nothing_against
from rase_models.session import Session

_POLL_SECONDS = 0.1


class ModelLoad:
    """The loading of a model in a thread of its own. Who waits for `future` gets the session, or the error.

    It goes on when they have all gone, for whoever asks next; the end of the process ends it.
    """

    def __init__(self) -> None:
        self.future: Future[Session] = ForkSafeFuture()
        self.future.set_running_or_notify_cancel()  # nobody who waits can cancel it
        self._is_unwanted, self._process = threading.Event(), os.getpid()
        self._thread: threading.Thread | None = None

    @property
    def session(self) -> Session | None:
        """What was loaded; None before, and when it failed."""
        return self.future.result() if self.future.done() and self.future.exception() is None else None

    @property
    def is_under_way(self) -> bool:
        """Whether something may still come of it; nothing does in a process that was forked meanwhile."""
        return not self.future.done() and os.getpid() == self._process

    def start(self, load: Callable[[Progress], Session], progress: Progress | None) -> None:
        """Load; `load` is given what is to hear of its progress, and `progress` hears of it, too."""
        hear = _until(self._is_unwanted, progress)
        thread = threading.Thread(target=self._run, args=(load, hear), name="rase-load", daemon=True)
        thread.start()
        self._thread = thread
        weakref.finalize(self, _end, thread, self._is_unwanted, self._process)

    def wait(self, deadline: Deadline, check: Check = nothing_against) -> None:
        """Wait for the end. Raises RequestTimeout, and what `check` raises now and then."""
        while not wait([self.future], min(deadline.left(), _POLL_SECONDS)).done:
            check()

    def check_wanted(self) -> None:
        """Raise ShuttingDown if it was given up, or the process ends."""
        if self._is_unwanted.is_set():
            raise ShuttingDown

    def give_up(self) -> None:
        """Let those who wait fail with ShuttingDown, unless it is done, and loading end as soon as it can."""
        self._is_unwanted.set()
        with suppress(InvalidStateError):
            self.future.set_exception(ShuttingDown())

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, at most so many seconds."""
        if self._thread not in (None, threading.current_thread()):
            self._thread.join(waitable(seconds))

    def retire(self) -> None:
        """Let go of the session, now or when it is there."""
        if self.session is not None:
            self.session.retire()
        else:
            self.future.add_done_callback(_retire)

    def _run(self, load: Callable[[Progress], Session], progress: Progress) -> None:
        try:
            session = load(progress)
        except BaseException as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            with suppress(InvalidStateError):  # it was given up
                self.future.set_exception(caught(without_locals(error)))  # what was read so far goes
        else:
            self._hand_over(session)

    def _hand_over(self, session: Session) -> None:
        try:
            self.future.set_result(session)
        except InvalidStateError:  # it was given up
            session.retire()


def _until(is_unwanted: threading.Event, progress: Progress | None) -> Progress:
    def hear(event: ProgressEvent) -> None:
        if is_unwanted.is_set():
            raise ShuttingDown
        if progress is not None:
            progress(event)

    return hear


def _retire(future: Future[Session]) -> None:
    if future.exception() is None:
        future.result().retire()


def _end(thread: threading.Thread, is_unwanted: threading.Event, process: int) -> None:
    """End the thread, which must not run compiled code while the interpreter goes."""
    is_unwanted.set()
    if os.getpid() == process and thread is not threading.current_thread():
        thread.join()
