"""Threads for what would block an event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from rase_core.errors import ShuttingDown

T = TypeVar("T")


class Workers:
    """So many threads, which end when they are idle and closed."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._is_closed = False

    async def call(self, call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Make a call in a thread, and return or raise what comes of it.

        When the task that waits is cancelled, a call that has not begun is not made, and the result of one
        that has goes to `undo`, in any thread. Raises ShuttingDown after `close`.
        """
        try:
            future = self._pool.submit(self._made, call)
        except RuntimeError:  # closed, or the interpreter is at its end
            raise ShuttingDown from None
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(partial(_undo, undo))
            raise

    def check_open(self) -> None:
        """Raise ShuttingDown after `close`."""
        if self._is_closed:
            raise ShuttingDown

    def close(self) -> None:
        """Let the calls that have begun come to their end, and no other begin."""
        self._is_closed = True
        self._pool.shutdown(wait=False)

    def _made(self, call: Callable[[], T]) -> T:
        self.check_open()
        return call()


def _undo(undo: Callable[[T], object], future: "Future[T]") -> None:
    if not future.cancelled() and future.exception() is None:
        undo(future.result())
