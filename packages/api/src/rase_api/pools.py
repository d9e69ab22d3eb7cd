"""Threads for what may block, so many at a time and only so many waiting."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from rase_core.errors import QueueFull

P = ParamSpec("P")
T = TypeVar("T")


class BoundedPool(ThreadPoolExecutor):
    """An executor of so many threads that has room for `most` calls, running and waiting together."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        super().__init__(threads, thread_name_prefix=f"rase-api-{name}")
        self._most = most
        self._room = threading.Semaphore(most)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread. Raises QueueFull."""
        if not self._room.acquire(blocking=False):
            raise QueueFull(self._most)
        try:
            future = super().submit(fn, *args, **kwargs)
        except BaseException:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return future
