"""Threads for an event loop: calls that are made or not, and what becomes of their results."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from rase_core.errors import ShuttingDown
from rase_core.testing_waits import wait_for
from rase_models.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(1, "test-worker")
    yield workers
    workers.close()
    wait_for(lambda: not any(thread.name.startswith("test-worker") for thread in threading.enumerate()))


class Held:
    """A call that takes until it is released."""

    def __init__(self) -> None:
        self.is_begun, self._release = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.is_begun.set()
        assert self._release.wait(60)
        return "done"

    def release(self) -> None:
        self._release.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_call_returns_and_raises_what_it_does(workers: Workers) -> None:
    async def run() -> None:
        assert await workers.call(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await workers.call(lambda: 1 // 0)

    asyncio.run(run())


def test_a_call_that_is_cancelled_before_it_begins_is_not_made(workers: Workers) -> None:
    async def run() -> None:
        held, made = Held(), list[str]()
        holding = asyncio.create_task(workers.call(held))
        await until(held.is_begun.is_set)
        waiting = asyncio.create_task(workers.call(lambda: made.append("made")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.release()
        assert await holding == "done"
        await workers.call(lambda: made.append("next"))
        assert made == ["next"]

    asyncio.run(run())


@pytest.mark.parametrize("is_soon", [True, False], ids=["while the loop runs", "after it"])
def test_what_comes_of_a_cancelled_call_is_undone(workers: Workers, is_soon: bool) -> None:
    held, undone = Held(), list[str]()

    async def run() -> None:
        call = asyncio.create_task(workers.call(held, undo=undone.append))
        await until(held.is_begun.is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if is_soon:
            held.release()
            await until(lambda: bool(undone))

    asyncio.run(run())
    held.release()
    workers.close()
    wait_for(lambda: undone)
    assert undone == ["done"]


def test_no_call_begins_after_the_end(workers: Workers) -> None:
    async def run() -> None:
        held = Held()
        begun = asyncio.create_task(workers.call(held))
        await until(held.is_begun.is_set)
        waiting = asyncio.create_task(workers.call(lambda: 7))
        await asyncio.sleep(0)
        workers.close()
        with pytest.raises(ShuttingDown):
            await workers.call(lambda: 7)
        held.release()
        assert await begun == "done"
        with pytest.raises(ShuttingDown):
            await waiting

    asyncio.run(run())
