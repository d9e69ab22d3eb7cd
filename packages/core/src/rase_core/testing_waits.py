"""Waiting for what other threads do, for tests."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a condition is true. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        time.sleep(0.002)
