"""Ctrl-C while a model is loaded or answers: stop at a good moment, not in the middle of anything."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """Give an event, a new one by default, that the first Ctrl-C sets; a second one raises KeyboardInterrupt.

    Python runs signal handlers in the main thread only; elsewhere the event is never set.
    """
    stop = stop or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def interruptible(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C set the event of work that looks at it now and then, and raise KeyboardInterrupt afterwards.

    Raised in the middle, it could be lost in a callback from compiled code, or leave things half done.
    """
    with stop_on_interrupt(stop):
        yield
    if stop.is_set():
        raise KeyboardInterrupt
