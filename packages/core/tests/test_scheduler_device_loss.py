"""A device that is lost costs time, and no request."""

import threading
import time
from collections.abc import Callable

import pytest
from rase_core.answer import StopReason
from rase_core.decoder import Batch, BatchDecoder
from rase_core.errors import BackendFailure, DeviceLost, EngineError, ShuttingDown, StoreError
from rase_core.generation import generate
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, Scheduler, SchedulerLimits
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder

CONTEXT = 64
SEEDED = GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0, max_tokens=20, seed=5)


class Losing:
    """Lets a decoder's device be lost at its run with a number, and ever after."""

    def __init__(self, at: int) -> None:
        self.runs, self.at = 0, at

    def __call__(self, batch: Batch) -> None:
        self.runs += 1
        if self.runs >= self.at:
            raise DeviceLost("cuda", "cudaErrorLaunchFailure")


def decoder(at: int | None = None, context_length: int = CONTEXT) -> HistoryDecoder:
    if at is None:
        return HistoryDecoder(context_length=context_length)
    return HistoryDecoder(context_length=context_length, on_forward=Losing(at))


def ask(scheduler: StepwiseScheduler, number: int, n: int = 1) -> Submitted:
    return scheduler.submit(GenerationRequest([number, 1, 2, 3, 4], SEEDED, n=n))


def alone(number: int, choice: int = 0) -> tuple[int, ...]:
    return generate(decoder(), [number, 1, 2, 3, 4], SEEDED, choice=choice).tokens


@pytest.mark.parametrize("at", [1, 2, 7, 12])
def test_what_runs_goes_on_with_another_decoder_and_repeats_nothing(at: int) -> None:
    scheduler = StepwiseScheduler(decoder(at), SchedulerLimits(running=3), lambda _: decoder())
    asked = [ask(scheduler, number) for number in range(5)]
    scheduler.run()
    for number, submitted in enumerate(asked):
        assert submitted.tokens() == submitted.ended[0].tokens == alone(number)
    assert scheduler.snapshot.totals.device_losses == 1
    assert not scheduler.snapshot.totals.failed


@pytest.mark.parametrize("at", [1, 2, 3, 9])
def test_choices_of_one_prompt_go_on_each_by_itself(at: int) -> None:
    scheduler = StepwiseScheduler(decoder(at), replace=lambda _: decoder())
    submitted = ask(scheduler, 1, n=4)
    scheduler.run()
    assert [submitted.ended[choice].tokens for choice in range(4)] == [alone(1, i) for i in range(4)]


class Unforkable(HistoryDecoder):
    """Fails to fork a sequence, against what is said of decoders where its device is lost then."""

    def __init__(self, error: EngineError, forks: int) -> None:
        super().__init__(context_length=CONTEXT)
        self._error, self._forks = error, forks

    def fork(self, sequence: int, length: int) -> int:
        self._forks -= 1
        if self._forks < 0:
            raise self._error
        return super().fork(sequence, length)


@pytest.mark.parametrize("forks", [0, 1, 2])
def test_no_choice_is_forgotten_when_a_prompt_cannot_be_forked(forks: int) -> None:
    lost = Unforkable(DeviceLost("cuda", "gone"), forks)
    scheduler = StepwiseScheduler(lost, replace=lambda _: decoder())
    submitted = ask(scheduler, 1, n=4)
    scheduler.run()
    assert [submitted.ended[choice].tokens for choice in range(4)] == [alone(1, i) for i in range(4)]


@pytest.mark.parametrize("forks", [0, 2])
def test_a_failing_fork_ends_the_request_with_its_error(forks: int) -> None:
    with Scheduler(Unforkable(BackendFailure("no block"), forks)) as scheduler:
        handle = scheduler.submit(GenerationRequest([1, 2, 3], SEEDED, n=4))
        with pytest.raises(BackendFailure, match="no block"):
            handle.result(30)
        assert scheduler.is_broken


def test_prefixes_that_were_kept_are_forgotten_with_the_device() -> None:
    scheduler = StepwiseScheduler(decoder(30), replace=lambda _: decoder())
    first = ask(scheduler, 1)
    scheduler.run()
    assert scheduler.snapshot.cached_sequences == 1
    second = [ask(scheduler, 1) for _ in range(3)]
    scheduler.run()
    assert {submitted.tokens() for submitted in second} == {first.tokens()} == {alone(1)}


def test_devices_may_be_lost_one_after_another() -> None:
    spare = iter([decoder(3), decoder(1), decoder()])
    scheduler = StepwiseScheduler(decoder(4), replace=lambda _: next(spare))
    submitted = ask(scheduler, 2)
    scheduler.run()
    assert submitted.tokens() == alone(2)
    assert scheduler.snapshot.totals.device_losses == 3


def test_without_another_decoder_everybody_is_told_and_the_scheduler_has_ended() -> None:
    with Scheduler(decoder(3)) as scheduler:
        handles = [scheduler.submit(GenerationRequest([number, 1], SEEDED)) for number in range(3)]
        for handle in handles:
            with pytest.raises(DeviceLost, match="cudaErrorLaunchFailure"):
                handle.result()
        assert scheduler.is_broken


def test_a_decoder_that_cannot_be_had_is_what_everybody_is_told_of() -> None:
    def fail(error: DeviceLost, check: Callable[[], None]) -> BatchDecoder:
        raise BackendFailure("no memory for the weights") from error

    with Scheduler(decoder(3), replace=fail) as scheduler:
        handle = scheduler.submit(GenerationRequest([1, 1], SEEDED))
        with pytest.raises(BackendFailure, match="no memory for the weights"):
            handle.result()
        assert scheduler.is_broken


def test_an_error_of_another_kind_is_told_by_its_message_and_advice() -> None:
    def fail(error: DeviceLost, check: Callable[[], None]) -> BatchDecoder:
        raise StoreError("the model's file is gone", "put it back") from error

    with Scheduler(decoder(3), replace=fail) as scheduler:
        handle = scheduler.submit(GenerationRequest([1, 1], SEEDED))
        with pytest.raises(BackendFailure) as failure:
            handle.result()
    assert failure.value.message == "the scheduler has stopped: the model's file is gone"
    assert failure.value.advice == "put it back"


@pytest.mark.parametrize("grace", [0, 0.2])
def test_a_scheduler_is_closed_while_another_decoder_is_on_its_way(grace: float) -> None:
    is_loading = threading.Event()

    def load(error: DeviceLost, check: Callable[[], None]) -> BatchDecoder:
        is_loading.set()
        while True:
            time.sleep(0.01)
            check()

    scheduler = Scheduler(decoder(3), replace=load)
    handle = scheduler.submit(GenerationRequest([1, 1], SEEDED))
    assert is_loading.wait(30)
    closer = threading.Thread(target=scheduler.close, args=(grace,), daemon=True)
    closer.start()
    closer.join(30)
    assert not closer.is_alive()
    for failing in (handle.result, lambda: scheduler.submit(GenerationRequest([1, 1], SEEDED))):
        with pytest.raises(ShuttingDown):
            failing()


@pytest.mark.parametrize("at", [1, 5, 9, 14])
def test_answers_end_where_the_context_of_the_other_decoder_is_full(at: int) -> None:
    short = 12
    scheduler = StepwiseScheduler(decoder(at), SchedulerLimits(running=4), lambda _: decoder(None, short))
    asked = [ask(scheduler, 1), ask(scheduler, 2, n=3)]
    waiting = scheduler.submit(GenerationRequest([1] * (short + 1), SEEDED, n=2))
    scheduler.run()
    for submitted in asked:
        for choice, generation in submitted.ended.items():
            whole = alone(submitted.request.prompt[0], choice)
            assert len(generation.tokens) >= short - 5
            assert generation.tokens == submitted.tokens(choice) == whole[: len(generation.tokens)]
            assert generation.stop_reason is StopReason.CONTEXT_FULL
    assert [generation.tokens for generation in waiting.ended.values()] == [(), ()]
    assert {generation.stop_reason for generation in waiting.ended.values()} == {StopReason.CONTEXT_FULL}
    assert not scheduler.snapshot.totals.failed


def test_what_is_asked_after_the_loss_is_measured_by_the_new_decoder() -> None:
    scheduler = StepwiseScheduler(decoder(2), replace=lambda _: decoder(context_length=2 * CONTEXT))
    ask(scheduler, 1)
    scheduler.run()
    config = GenerationConfig(max_tokens=1)
    assert scheduler.submit(GenerationRequest([1] * (CONTEXT + 10), config))
