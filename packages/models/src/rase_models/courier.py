"""Calls from other threads into an event loop, many with one wake-up."""

import asyncio
import weakref
from collections import deque
from collections.abc import Callable

from rase_core.scheduler import put_off


class Courier:
    """Brings calls into a loop, in their order, and wakes it once for all that come before it looks.

    A step of a scheduler tells something to each of its streams. Waking the loop is a system call, which also
    lets the loop take the interpreter from the thread that steps; once a step is enough, when that computes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._calls: deque[Callable[[], object]] = deque()
        self._is_awaited = False

    def post(self, call: Callable[[], object]) -> None:
        """Let the loop make a call soon; from any thread. Raises RuntimeError when the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            self._calls.clear()
            raise RuntimeError("the event loop is closed")
        self._calls.append(call)
        if not self._is_awaited:
            self._is_awaited = True
            put_off(self._wake)

    def _wake(self) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # it was closed meanwhile, which the next to post is told
            self._calls.clear()

    def _deliver(self) -> None:
        # What is posted from here on wakes the loop again, so nothing stays behind.
        self._is_awaited = False
        for _ in range(len(self._calls)):
            self._calls.popleft()()


_COURIERS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Courier]" = weakref.WeakKeyDictionary()


def running_courier() -> Courier:
    """Return the courier of the running loop; there is one for each."""
    loop = asyncio.get_running_loop()
    courier = _COURIERS.get(loop)
    if courier is None:
        courier = _COURIERS.setdefault(loop, Courier(loop))
    return courier
