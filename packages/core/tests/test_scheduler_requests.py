"""Requests from any thread: what they hear, and how they end."""

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from rase_core.answer import StopReason
from rase_core.decoder import Batch
from rase_core.errors import (
    BackendFailure,
    ContextOverflow,
    InvalidParameter,
    QueueFull,
    RequestTimeout,
    ShuttingDown,
)
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import (
    Ended,
    Event,
    Failed,
    GenerationRequest,
    Handle,
    Piece,
    Scheduler,
    SchedulerLimits,
)
from rase_core.scheduler.testing import StepwiseScheduler
from rase_core.testing import HistoryDecoder, ScriptedDetokenizer

PROMPT = [1, 2, 3, 4, 5]
LONG = GenerationConfig(temperature=0, max_tokens=100)
SHORT = GenerationConfig(temperature=0, max_tokens=3)


def letters() -> ScriptedDetokenizer:
    return ScriptedDetokenizer({token: bytes([ord("A") + token]) for token in range(32)})


class Gate:
    """Holds the decoder's steps until it is told to let them go."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, batch: Batch) -> None:
        self.is_reached.set()
        assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def decoder() -> HistoryDecoder:
    return HistoryDecoder()


@pytest.fixture
def scheduler(decoder: HistoryDecoder) -> Iterator[Scheduler]:
    with Scheduler(decoder, SchedulerLimits(waiting=2, running=4)) as scheduler:
        yield scheduler
    assert decoder.open_sequences == 0


def hold(decoder: HistoryDecoder, scheduler: Scheduler) -> tuple[Gate, Handle]:
    """Let a request run into a closed gate."""
    gate = decoder.on_forward = Gate()
    handle = scheduler.submit(GenerationRequest(PROMPT, LONG))
    assert gate.is_reached.wait(10)
    return gate, handle


def test_iterating_gives_the_pieces_and_then_the_answer(scheduler: Scheduler) -> None:
    handle = scheduler.submit(GenerationRequest(PROMPT, SHORT, letters))
    *pieces, end = list(handle)
    assert isinstance(end, Ended)
    expected = generate(HistoryDecoder(), PROMPT, SHORT, detokenizer=letters())
    assert (end.generation.tokens, end.generation.text) == (expected.tokens, expected.text)
    assert tuple(piece.token for piece in pieces if isinstance(piece, Piece)) == expected.tokens
    assert handle.result() == (end.generation,)
    assert handle.is_done and list(handle) == []


def test_held_back_text_comes_last(scheduler: Scheduler) -> None:
    expected = generate(HistoryDecoder(), PROMPT, SHORT, detokenizer=letters())
    config = GenerationConfig(temperature=0, max_tokens=3, stop=(expected.text[-1] + "?",))
    *_, last, _ = list(scheduler.submit(GenerationRequest(PROMPT, config, letters)))
    assert last == Piece(0, None, expected.text[-1])


def test_a_callback_hears_all_of_it_in_order(scheduler: Scheduler) -> None:
    events: list[Event] = []
    handle = scheduler.submit(GenerationRequest(PROMPT, SHORT, n=2), events.append)
    generations = handle.result(10)
    for choice in range(2):
        own = [event for event in events if not isinstance(event, Failed) and event.choice == choice]
        assert [type(event) for event in own] == [Piece, Piece, Piece, Ended]
        assert own[-1] == Ended(choice, generations[choice])
    assert list(handle) == []


def test_times_and_counts_are_told(scheduler: Scheduler) -> None:
    generation = scheduler.submit(GenerationRequest(PROMPT, SHORT)).result(10)[0]
    assert min(generation.queued_seconds, generation.prefill_seconds, generation.decode_seconds) >= 0
    scheduler.close()
    snapshot = scheduler.snapshot()
    assert (snapshot.waiting, snapshot.prefilling, snapshot.decoding, snapshot.kv_used) == (0, 0, 0, 0)
    totals = snapshot.totals
    assert (totals.requests, totals.prompt_tokens, totals.generated_tokens) == (1, 5, 3)
    assert (totals.ended, totals.batch_sizes, totals.steps) == ({"max_tokens": 1}, {1: 3}, 3)
    assert totals.step_seconds >= totals.decoder_seconds > 0


def test_false_from_the_callback_ends_the_request(scheduler: Scheduler) -> None:
    events: list[Event] = []

    def refuse_second(event: Event) -> bool:
        events.append(event)
        return len(events) < 2

    handle = scheduler.submit(GenerationRequest(PROMPT, LONG, letters), refuse_second)
    generation = handle.result(10)[0]
    assert generation.stop_reason is StopReason.CANCELLED
    assert [type(event) for event in events] == [Piece, Piece, Ended]
    assert len(generation.tokens) == len(generation.text) == 2


def test_a_callback_that_raises_fails_its_own_request_alone(scheduler: Scheduler) -> None:
    def leave(event: Event) -> None:
        raise RuntimeError("the loop is closed")

    other = scheduler.submit(GenerationRequest(PROMPT, LONG))
    handle = scheduler.submit(GenerationRequest([1, 2], LONG, n=2), leave)
    with pytest.raises(RuntimeError, match="the loop is closed"):
        handle.result(10)
    assert len(other.result(10)[0].tokens) == 100
    scheduler.close()
    assert scheduler.snapshot().totals.failed == {"RuntimeError": 1}


def test_a_callback_that_fails_at_the_held_back_text_hears_nothing_more(scheduler: Scheduler) -> None:
    events: list[Event] = []

    def fail_at_the_end(event: Event) -> None:
        events.append(event)
        if isinstance(event, Piece) and event.token is None:
            raise RuntimeError("too late")

    text = generate(HistoryDecoder(), PROMPT, SHORT, detokenizer=letters()).text
    config = GenerationConfig(temperature=0, max_tokens=3, stop=(text[-1] + "?",))
    with pytest.raises(RuntimeError, match="too late"):
        scheduler.submit(GenerationRequest(PROMPT, config, letters), fail_at_the_end).result(10)
    assert [type(event) for event in events] == [Piece] * 4


def test_refusing_the_held_back_text_changes_nothing(scheduler: Scheduler) -> None:
    text = generate(HistoryDecoder(), PROMPT, SHORT, detokenizer=letters()).text
    config = GenerationConfig(temperature=0, max_tokens=3, stop=(text[-1] + "?",))
    request = GenerationRequest(PROMPT, config, letters)
    handle = scheduler.submit(request, lambda event: not (isinstance(event, Piece) and event.token is None))
    assert handle.result(10)[0].stop_reason is StopReason.MAX_TOKENS


class Broken:
    def push(self, token: int) -> bytes:
        raise KeyError(token)

    def piece(self, token: int) -> bytes:
        raise KeyError(token)


def test_a_detokenizer_that_raises_fails_its_own_request_alone(scheduler: Scheduler) -> None:
    other = scheduler.submit(GenerationRequest(PROMPT, LONG))
    with pytest.raises(KeyError):
        list(scheduler.submit(GenerationRequest([1, 2], LONG, Broken)))
    assert len(other.result(10)[0].tokens) == 100


def test_cancelling_ends_a_running_request_within_a_step(
    decoder: HistoryDecoder, scheduler: Scheduler
) -> None:
    gate, handle = hold(decoder, scheduler)
    handle.cancel()
    gate.open()
    generation = handle.result(10)[0]
    assert (generation.stop_reason, generation.tokens) == (StopReason.CANCELLED, ())
    assert generation.is_started


def test_cancelling_ends_a_waiting_request(decoder: HistoryDecoder, scheduler: Scheduler) -> None:
    gate, running = hold(decoder, scheduler)
    waiting = scheduler.submit(GenerationRequest(PROMPT, LONG, n=2))
    waiting.cancel()
    gate.open()
    assert [generation.tokens for generation in waiting.result(10)] == [(), ()]
    assert waiting.result()[0].prefill_seconds == 0
    assert [generation.is_started for generation in waiting.result()] == [False, False]
    assert len(running.result(10)[0].tokens) == 100


def test_a_full_queue_is_told_with_its_limit(decoder: HistoryDecoder) -> None:
    with Scheduler(decoder, SchedulerLimits(waiting=2, running=1)) as scheduler:
        gate = decoder.on_forward = Gate()
        handles = [scheduler.submit(GenerationRequest(PROMPT, SHORT))]
        assert gate.is_reached.wait(10)
        handles += [scheduler.submit(GenerationRequest(PROMPT, SHORT)) for _ in range(2)]
        with pytest.raises(QueueFull, match="2 requests are waiting") as caught:
            scheduler.submit(GenerationRequest(PROMPT, SHORT))
        assert caught.value.limit == 2
        gate.open()
        assert all(handle.result(10) for handle in handles)


def test_places_that_are_free_are_not_counted_as_waiting(decoder: HistoryDecoder) -> None:
    with Scheduler(decoder, SchedulerLimits(waiting=0, running=3)) as scheduler:
        handles = [scheduler.submit(GenerationRequest(PROMPT, SHORT)) for _ in range(3)]
        assert all(handle.result(10) for handle in handles)
        scheduler.submit(GenerationRequest(PROMPT, SHORT)).result(10)


def test_a_request_that_takes_too_long_fails(decoder: HistoryDecoder) -> None:
    clock = count(step=0.01)
    with Scheduler(decoder, clock=lambda: next(clock)) as scheduler:
        handle = scheduler.submit(GenerationRequest(PROMPT, LONG, timeout=0.5))
        with pytest.raises(RequestTimeout, match=r"within 0\.5 seconds"):
            list(handle)
        assert len(scheduler.submit(GenerationRequest(PROMPT, SHORT, timeout=9)).result(10)) == 1
    assert decoder.open_sequences == 0


def test_the_time_of_a_request_begins_when_it_was_asked(decoder: HistoryDecoder) -> None:
    clock = count(start=100, step=0.01)
    with Scheduler(decoder, clock=lambda: next(clock)) as scheduler:
        with pytest.raises(RequestTimeout, match="within 9 seconds"):
            scheduler.submit(GenerationRequest(PROMPT, SHORT, timeout=9, asked=90)).result(10)
        (answer,) = scheduler.submit(GenerationRequest(PROMPT, SHORT, timeout=20, asked=90)).result(10)
    assert len(answer.tokens) == 3
    assert answer.queued_seconds < 1  # in the scheduler's line


def test_requests_whose_time_is_over_in_line_are_not_computed_and_delay_nobody(
    decoder: HistoryDecoder,
) -> None:
    clock = count(step=0.01)
    with Scheduler(decoder, SchedulerLimits(running=1), clock=lambda: next(clock)) as scheduler:
        running = scheduler.submit(GenerationRequest(PROMPT, LONG))
        late = [scheduler.submit(GenerationRequest([9] * 20, SHORT, timeout=0.01)) for _ in range(5)]
        for handle in late:
            with pytest.raises(RequestTimeout):
                handle.result(10)
        (answer,) = running.result(30)
        assert len(answer.tokens) == LONG.max_tokens
        assert scheduler.snapshot().totals.requests == 1


def test_the_longest_waits_are_possible(decoder: HistoryDecoder) -> None:
    scheduler = Scheduler(decoder)
    handle = scheduler.submit(GenerationRequest(PROMPT, SHORT, timeout=10**400))
    assert handle.get(float("inf")) and handle.result(float("inf"))
    scheduler.close(grace=float("inf"))


def test_waiting_for_a_result_can_be_given_up(decoder: HistoryDecoder, scheduler: Scheduler) -> None:
    gate, handle = hold(decoder, scheduler)
    with pytest.raises(TimeoutError, match=r"0\.01 seconds"):
        handle.result(0.01)
    assert not handle.is_done
    gate.open()
    assert len(handle.result(10)[0].tokens) == 100


def test_closing_lets_requests_finish_in_the_time_of_grace(decoder: HistoryDecoder) -> None:
    scheduler = Scheduler(decoder, SchedulerLimits(running=1))
    handles = [scheduler.submit(GenerationRequest(PROMPT, SHORT)) for _ in range(3)]
    scheduler.close(grace=10)
    assert all(len(handle.result()[0].tokens) == 3 for handle in handles)
    assert decoder.open_sequences == 0


def test_closing_without_grace_fails_what_is_not_finished(decoder: HistoryDecoder) -> None:
    scheduler = Scheduler(decoder, SchedulerLimits(running=1))
    gate, running = hold(decoder, scheduler)
    waiting = scheduler.submit(GenerationRequest(PROMPT, SHORT))
    closing = threading.Thread(target=scheduler.close)
    closing.start()
    while not scheduler._abortion.is_due:
        closing.join(0.001)
    gate.open()
    closing.join(10)
    for handle in (running, waiting):
        with pytest.raises(ShuttingDown):
            handle.result(0)
    assert decoder.open_sequences == 0
    assert "rase-scheduler" not in [thread.name for thread in threading.enumerate()]


def test_a_closed_scheduler_takes_nothing(scheduler: Scheduler) -> None:
    scheduler.close()
    scheduler.close()
    with pytest.raises(ShuttingDown, match="shutting down"):
        scheduler.submit(GenerationRequest(PROMPT, SHORT))


def test_a_fault_of_the_decoder_s_code_leaves_nobody_waiting(decoder: HistoryDecoder) -> None:
    def fail(batch: Batch) -> None:
        raise ZeroDivisionError("a bug")

    decoder.on_forward = fail
    scheduler = Scheduler(decoder)
    with pytest.raises(BackendFailure, match="a bug"):
        scheduler.submit(GenerationRequest(PROMPT, SHORT)).result(10)
    with pytest.raises(BackendFailure, match="has stopped") as caught:
        scheduler.submit(GenerationRequest(PROMPT, SHORT))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    scheduler.close()


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [99]}, "prompt"),
        ({"n": 0}, "n"),
        ({"n": 5}, "n"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"choice": -1}, "choice"),
        ({"choice": 2**64 - 1, "n": 2}, "choice"),
        ({"config": GenerationConfig(stop=("x",))}, "stop"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_at_once(
    scheduler: Scheduler, changes: dict[str, Any], parameter: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        scheduler.submit(GenerationRequest(**{"prompt": PROMPT, "config": SHORT, **changes}))
    assert caught.value.parameter == parameter


def test_a_prompt_longer_than_the_context_is_refused_at_once(scheduler: Scheduler) -> None:
    with pytest.raises(ContextOverflow, match=r"129 tokens.* 128 tokens"):
        scheduler.submit(GenerationRequest([1] * 129, SHORT))


@pytest.mark.parametrize(
    ("prompt", "config", "reason"),
    [
        (PROMPT, GenerationConfig(max_tokens=0), StopReason.MAX_TOKENS),
        ([1] * 128, SHORT, StopReason.CONTEXT_FULL),
    ],
)
def test_an_answer_without_room_is_empty_and_computes_nothing(
    decoder: HistoryDecoder,
    scheduler: Scheduler,
    prompt: list[int],
    config: GenerationConfig,
    reason: StopReason,
) -> None:
    decoder.on_forward = Gate()
    generation = scheduler.submit(GenerationRequest(prompt, config)).result(10)[0]
    assert (generation.tokens, generation.stop_reason) == ((), reason)
    assert not generation.is_started and scheduler.snapshot().totals.requests == 0


def test_a_request_without_room_may_come_in_the_middle_of_a_step(
    decoder: HistoryDecoder, scheduler: Scheduler
) -> None:
    empty: list[Handle] = []

    def ask_again(event: Event) -> None:
        if isinstance(event, Ended):
            empty.append(scheduler.submit(GenerationRequest(PROMPT, GenerationConfig(max_tokens=0))))

    gate, running = hold(decoder, scheduler)
    cancelled = scheduler.submit(GenerationRequest(PROMPT, LONG), ask_again)
    cancelled.cancel()
    running.cancel()
    gate.open()
    cancelled.result(10)
    assert empty[0].result(10)[0].tokens == ()


def test_every_sampler_has_its_say_beside_greedy_ones(decoder: HistoryDecoder, scheduler: Scheduler) -> None:
    seeded = GenerationConfig(max_tokens=20, seed=3, top_p=0.9)
    penalised = GenerationConfig(temperature=0, max_tokens=20, presence_penalty=1.5)
    gate, _ = hold(decoder, scheduler)
    handles = [scheduler.submit(GenerationRequest(PROMPT, config)) for config in (seeded, penalised)]
    gate.open()
    for handle, config in zip(handles, (seeded, penalised), strict=True):
        assert handle.result(10)[0].tokens == generate(HistoryDecoder(), PROMPT, config).tokens


def test_choices_of_a_prompt_that_is_computed_count_as_running() -> None:
    most = 0

    def count_rows(batch: Batch) -> None:
        nonlocal most
        most = max(most, len(set(batch.sequences.tolist())))

    scheduler = StepwiseScheduler(HistoryDecoder(on_forward=count_rows), SchedulerLimits(running=4))
    asked = [
        scheduler.submit(GenerationRequest([number, 1, 2], SHORT, n=n)) for number, n in enumerate((1, 3, 2))
    ]
    scheduler.run()
    assert [len(submitted.ended) for submitted in asked] == [1, 3, 2]
    assert most == 4
