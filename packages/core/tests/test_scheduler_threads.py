"""Many threads at once."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from rase_core.answer import Generation, StopReason
from rase_core.errors import BackendFailure, QueueFull, ShuttingDown
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, Handle, Scheduler, SchedulerLimits
from rase_core.scheduler.ticket import Ticket
from rase_core.testing import HistoryDecoder

CONTEXT = 64


def request_of(number: int) -> GenerationRequest:
    config = GenerationConfig(temperature=number % 2, seed=number, max_tokens=5 + number % 20)
    return GenerationRequest([*range(number % 12), number % 32], config, n=1 + number % 2)


def submit(scheduler: Scheduler, request: GenerationRequest) -> Handle:
    """Ask until there is room in the line."""
    while True:
        try:
            return scheduler.submit(request)
        except QueueFull:
            time.sleep(0.001)


def client(scheduler: Scheduler, number: int) -> None:
    """Ask once, and now and then go away before the answer is there."""
    request, randomly = request_of(number), random.Random(number)
    handle = submit(scheduler, request)
    if randomly.random() < 0.3:
        time.sleep(randomly.random() * 0.01)
        handle.cancel()
    for choice, generation in enumerate(handle.result(30)):
        whole = generate(
            HistoryDecoder(context_length=CONTEXT), request.prompt, request.config, choice=choice
        )
        assert generation.tokens == whole.tokens[: len(generation.tokens)]
        assert generation.stop_reason in (whole.stop_reason, StopReason.CANCELLED)


def test_many_clients_that_come_and_go_all_get_their_own_answer() -> None:
    decoder = HistoryDecoder(context_length=CONTEXT, kv_capacity=4 * CONTEXT)
    before = threading.active_count()
    with Scheduler(decoder, SchedulerLimits(waiting=8, running=8)) as scheduler:
        with ThreadPoolExecutor(24) as clients:
            list(clients.map(lambda number: client(scheduler, number), range(150)))
        totals = scheduler.snapshot().totals
    assert totals.ended.total() == sum(request_of(number).n for number in range(150))
    assert not totals.failed
    assert decoder.open_sequences == 0 and threading.active_count() <= before


def test_a_scheduler_is_closed_while_others_still_ask() -> None:
    for _ in range(20):
        scheduler = Scheduler(HistoryDecoder(), SchedulerLimits(waiting=100))
        handles = [scheduler.submit(request_of(number)) for number in range(5)]
        closers = [threading.Thread(target=scheduler.close) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(10)
        assert all(handle.is_done for handle in handles)


def test_who_waits_for_the_next_piece_may_lose_patience() -> None:
    with Scheduler(HistoryDecoder()) as scheduler:
        handle = scheduler.submit(request_of(2))
        while handle.get(30) is not None:
            pass
        assert handle.is_done and handle.wait(0) and handle.error is None
        assert handle.get() is None
    silent = Handle(Ticket(1, lambda event: None), SimpleQueue())
    with pytest.raises(TimeoutError):
        silent.get(0.01)


def test_a_forgotten_handle_cancels_and_the_end_is_told_before_anybody_waits_no_more() -> None:
    settled: list[tuple[Generation, ...]] = []
    endless = GenerationRequest([1], GenerationConfig(max_tokens=10_000, ignore_eos=True))
    with Scheduler(HistoryDecoder(context_length=20_000)) as scheduler:
        handle = scheduler.submit(endless, on_settled=settled.append)
        next(handle)
        del handle
        later = scheduler.submit(request_of(2), on_settled=settled.append)
        generations = later.result(30)
        assert settled[-1] == generations
    assert settled[0][0].stop_reason is StopReason.CANCELLED


def test_the_thread_ends_by_itself_when_it_closes_the_scheduler() -> None:
    ended = threading.Event()
    scheduler = Scheduler(HistoryDecoder(), on_end=ended.set)
    handle = scheduler.submit(request_of(2), on_settled=lambda _: scheduler.close())
    assert handle.result(30) and ended.wait(30)
    with pytest.raises(ShuttingDown):
        scheduler.submit(request_of(2))


def test_a_listener_that_exits_fails_its_own_request_and_no_other() -> None:
    def leave(event: object) -> bool:
        raise SystemExit

    with Scheduler(HistoryDecoder()) as scheduler:
        left = scheduler.submit(request_of(1), leave)
        with pytest.raises(BackendFailure, match="the listener has left"):
            left.result(timeout=20)
        assert submit(scheduler, request_of(2)).result(timeout=20)
