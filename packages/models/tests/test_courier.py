"""Calls from other threads reach an event loop in order, all of them, with few wake-ups."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest
from rase_models.courier import Courier, running_courier


def test_every_call_arrives_in_the_order_of_its_thread() -> None:
    async def gather() -> list[tuple[int, int]]:
        courier, heard = running_courier(), list[tuple[int, int]]()

        def post(number: int) -> None:
            for i in range(2000):
                courier.post(lambda i=i: heard.append((number, i)))  # type: ignore[misc]

        threads = [threading.Thread(target=post, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(heard) < 8000:
            await asyncio.sleep(0.001)
        for thread in threads:
            thread.join()
        return heard

    heard = asyncio.run(asyncio.wait_for(gather(), 30))
    for number in range(4):
        assert [i for sender, i in heard if sender == number] == list(range(2000))


def test_calls_that_come_before_the_loop_looks_wake_it_once() -> None:
    wakes = list[object]()

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:  # type: ignore[override]
            wakes.append(args)
            return super().call_soon_threadsafe(*args, **options)

    loop, heard = Loop(), list[int]()
    courier = Courier(loop)
    for i in range(8):
        courier.post(lambda i=i: heard.append(i))  # type: ignore[misc]
    loop.run_until_complete(asyncio.sleep(0))
    assert (heard, len(wakes)) == (list(range(8)), 1)
    courier.post(lambda: heard.append(8))
    loop.run_until_complete(asyncio.sleep(0))
    assert (heard[-1], len(wakes)) == (8, 2)
    loop.close()


def test_a_closed_loop_is_told_nothing_more() -> None:
    loop = asyncio.new_event_loop()
    courier = Courier(loop)
    courier.post(lambda: None)  # never delivered
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        courier.post(lambda: None)


def test_a_loop_has_one_courier_which_does_not_keep_it() -> None:
    async def couriers() -> tuple[Courier, Courier]:
        return running_courier(), running_courier()

    loop = asyncio.new_event_loop()
    first, second = loop.run_until_complete(couriers())
    assert first is second
    gone = weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert gone() is None
