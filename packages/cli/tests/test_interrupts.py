"""Ctrl-C while a model answers."""

import signal
import threading

import pytest
from rase_cli.interrupts import interruptible, stop_on_interrupt


def test_the_first_interrupt_sets_the_event_and_the_second_raises() -> None:
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_an_interrupt_raises_as_before() -> None:
    with stop_on_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_another_thread_gets_an_event_that_is_never_set() -> None:
    seen: list[bool] = []

    def work() -> None:
        with stop_on_interrupt() as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_interruptible_work_is_done_before_the_interrupt_is_raised() -> None:
    done, stop = [], threading.Event()
    with pytest.raises(KeyboardInterrupt), interruptible(stop):
        signal.raise_signal(signal.SIGINT)
        done.append(stop.is_set())
    assert done == [True]
    with interruptible(threading.Event()):
        pass
