"""Ctrl-C while a model answers: stop the answer, not the program."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C sets; a second Ctrl-C raises KeyboardInterrupt as usual.

    Python runs signal handlers in the main thread only; elsewhere the event is never set.
    """
    stop = threading.Event()
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
