"""Locks, events and futures in a process that was forked while another thread held them."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import InvalidStateError, wait

import pytest
from rase_core.fork_safe import ForkSafeEvent, ForkSafeFuture, ForkSafeLock


def in_a_fork(run: Callable[[], bool]) -> bool:
    """Whether something is true in a forked process; False also when that takes more than a few seconds."""
    child = os.fork()
    if child == 0:
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(run()), daemon=True)
        thread.start()
        thread.join(5)
        os._exit(0 if answers == [True] else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def test_a_lock_is_held_by_one_thread_at_a_time() -> None:
    lock = ForkSafeLock()
    with lock:
        assert lock.locked() and not lock.acquire(timeout=0.01)
    assert lock.acquire(blocking=False)
    lock.release()
    assert not lock.locked()


@needs_fork
def test_a_lock_that_another_thread_held_is_free_in_a_forked_process() -> None:
    lock, is_held, may_go = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(30)
    is_free = in_a_fork(lambda: lock.acquire(timeout=1))
    may_go.set()
    thread.join()
    assert is_free and not lock.locked()


def test_an_event_wakes_who_waits_for_it() -> None:
    event = ForkSafeEvent()
    assert not event.wait(0.01)
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(event.wait(30)))
    thread.start()
    event.set()
    thread.join()
    assert seen == [True] and event.wait(0)
    event.clear()
    assert not event.wait(0)


@needs_fork
def test_an_event_that_another_thread_waits_for_works_in_a_forked_process() -> None:
    event = ForkSafeEvent()
    thread = threading.Thread(target=event.wait)
    thread.start()

    def use() -> bool:
        event.set()
        return event.wait(1)

    assert in_a_fork(use)
    event.set()
    thread.join()


@needs_fork
def test_a_future_that_another_thread_was_at_can_be_asked_in_a_forked_process() -> None:
    future, is_held, may_go = ForkSafeFuture[int](), threading.Event(), threading.Event()

    def hold() -> None:
        with future._condition:
            is_held.set()
            may_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(30)
    is_free = in_a_fork(lambda: not future.done())
    may_go.set()
    thread.join()
    assert is_free
    future.set_result(5)
    assert future.result(0) == 5 and in_a_fork(lambda: future.result(1) == 5)


def test_who_waits_for_a_future_gets_its_result() -> None:
    future = ForkSafeFuture[int]()
    heard: list[int] = []
    future.add_done_callback(lambda done: heard.append(done.result()))
    timer = threading.Timer(0.01, future.set_result, [7])
    timer.start()
    assert wait([future], 30).done == {future}
    timer.join()
    assert heard == [7]
    with pytest.raises(InvalidStateError):
        future.set_result(8)
