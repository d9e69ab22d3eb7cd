"""When memory is short, who came last waits, and nobody fails or gets another answer."""

import sys
from collections import Counter
from functools import partial

import pytest
from rase_core.decoder import Batch
from rase_core.errors import BackendFailure, ContextOverflow
from rase_core.generation import generate
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder, ScriptedDetokenizer

CONTEXT = 64
SEEDED = GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0, max_tokens=40, seed=5)


def small(kv_capacity: int = CONTEXT) -> StepwiseScheduler:
    return StepwiseScheduler(HistoryDecoder(context_length=CONTEXT, kv_capacity=kv_capacity))


def ask(scheduler: StepwiseScheduler, number: int, n: int = 1) -> Submitted:
    return scheduler.submit(GenerationRequest([number, 1, 2, 3, 4], SEEDED, n=n))


def alone(number: int, choice: int = 0) -> tuple[int, ...]:
    decoder = HistoryDecoder(context_length=CONTEXT)
    return generate(decoder, [number, 1, 2, 3, 4], SEEDED, choice=choice).tokens


def test_running_requests_are_preempted_and_computed_again() -> None:
    scheduler = small(2 * CONTEXT)
    asked = [ask(scheduler, number) for number in range(6)]
    scheduler.run()
    assert [submitted.ended[0].tokens for submitted in asked] == [alone(number) for number in range(6)]
    assert scheduler.snapshot.totals.preemptions > 0


def test_the_youngest_waits_and_the_oldest_never_does() -> None:
    scheduler, most_preempted = small(2 * CONTEXT), 0
    asked = [ask(scheduler, number) for number in range(8)]
    while scheduler.step():
        scheduler.now += 1
        most_preempted = max(most_preempted, scheduler.snapshot.preempted)
    assert most_preempted > 1
    oldest, ends = asked[0].times(), [submitted.times()[-1] for submitted in asked]
    assert oldest == [oldest[0] + step for step in range(40)]
    assert ends == sorted(ends)
    for submitted, end in zip(asked, ends, strict=True):
        times = submitted.ended[0]
        assert times.prefill_seconds < 5 < times.decode_seconds
        assert times.queued_seconds + times.prefill_seconds + times.decode_seconds == end


def test_a_preempted_stream_repeats_nothing() -> None:
    scheduler = small()
    asked = [ask(scheduler, number) for number in range(3)]
    scheduler.run()
    assert scheduler.snapshot.totals.preemptions > 0
    for number, submitted in enumerate(asked):
        assert submitted.tokens() == alone(number)


def test_choices_are_preempted_one_by_one() -> None:
    scheduler = small()
    submitted = ask(scheduler, 1, n=5)
    scheduler.run()
    assert [submitted.ended[choice].tokens for choice in range(5)] == [alone(1, i) for i in range(5)]
    assert scheduler.snapshot.totals.preemptions > 0


def test_nobody_is_let_in_who_would_be_sent_back_at_once() -> None:
    scheduler = small(2 * CONTEXT)
    for number in range(12):
        ask(scheduler, number)
    scheduler.run()
    totals = scheduler.snapshot.totals
    assert totals.preemptions < 12 * 3


@pytest.mark.parametrize("shared", [0, 900])
def test_a_prompt_that_waits_for_memory_costs_a_step_the_same_however_long_it_is(shared: int) -> None:
    """Python's calls are counted, not time."""
    short, long = (calls_of_steps_before([1] * shared + [2] * own) for own in (40, 900))
    assert long < 1.1 * short


def calls_of_steps_before(waiting: list[int]) -> int:
    """Count the calls of some steps of a stream, in whose memory a prompt has no room."""
    scheduler = StepwiseScheduler(HistoryDecoder(context_length=2048, kv_capacity=2048, block_tokens=64))
    endless = GenerationConfig(temperature=0, max_tokens=900, ignore_eos=True)
    for prompt in ([1] * 1000, [3] * 320, [4] * 320):
        scheduler.submit(GenerationRequest(prompt, endless))
    while scheduler.snapshot.decoding < 3:
        scheduler.step()
    submitted = scheduler.submit(GenerationRequest(waiting, endless))
    scheduler.step()
    counts = Counter[str]()
    sys.setprofile(lambda frame, event, argument: counts.update((event,)))
    for _ in range(20):
        scheduler.step()
    sys.setprofile(None)
    assert not submitted.tokens() and scheduler.snapshot.waiting == 1
    return counts["call"]


def beside_a_stream(kept: list[int], prompt: list[int], started: int) -> tuple[Submitted, Submitted]:
    """Ask for a prompt when a text is kept and a stream has `started`; return the stream and who asks."""
    scheduler = StepwiseScheduler(HistoryDecoder(context_length=128, kv_capacity=128))
    brief, endless = (GenerationConfig(temperature=0, max_tokens=most, ignore_eos=True) for most in (4, 60))
    scheduler.submit(GenerationRequest(kept, brief))
    scheduler.run()
    stream = scheduler.submit(GenerationRequest([9] * 8, endless))
    while len(stream.tokens()) < started:
        scheduler.step()
    submitted = scheduler.submit(GenerationRequest(prompt, brief))
    while not submitted.is_done:
        scheduler.step()
    alone = generate(HistoryDecoder(context_length=128), prompt, brief)
    assert submitted.ended[0].tokens == alone.tokens
    return stream, submitted


def test_a_long_text_that_is_kept_keeps_nobody_out_who_begins_as_it_does() -> None:
    stream, submitted = beside_a_stream([*range(16), *[3] * 92], [*range(16), 7, 8], started=8)
    assert submitted.ended[0].cached_tokens == 16
    assert len(stream.tokens()) < 20


def test_what_a_prompt_begins_with_is_there_when_it_has_waited_for_memory() -> None:
    stream, submitted = beside_a_stream([*range(16), *[3] * 84], [*range(16), *[7] * 100], started=8)
    assert stream.is_done
    assert submitted.ended[0].cached_tokens == 16


def test_who_waits_for_memory_gets_what_copies_of_a_shared_block_do_not_take_after_all() -> None:
    """Each of two choices may have to copy the end of their prompt: one does, and then there is room."""
    scheduler = StepwiseScheduler(HistoryDecoder(context_length=64, kv_capacity=128, block_tokens=16))
    endless = GenerationConfig(temperature=0, max_tokens=31, ignore_eos=True)
    scheduler.submit(GenerationRequest([3] * 33, endless, n=2))
    scheduler.run()  # from now on a step of two streams may take a prompt
    choices = scheduler.submit(GenerationRequest([1] * 33, endless, n=2))
    while not choices.tokens():
        scheduler.step()
    submitted = scheduler.submit(GenerationRequest([2] * 8, endless))
    for _ in range(16):
        scheduler.step()
    assert submitted.tokens() and not choices.is_done


def test_a_preempted_request_can_be_cancelled() -> None:
    scheduler = small()
    asked = [ask(scheduler, number) for number in range(3)]
    while not scheduler.snapshot.preempted:
        scheduler.step()
    waiting = next(submitted for submitted in reversed(asked) if submitted.tokens())
    waiting.cancel()
    scheduler.step()
    assert waiting.is_done and waiting.ended[0].stop_reason == "cancelled"
    assert waiting.ended[0].tokens == waiting.tokens()
    scheduler.run()


def test_a_prompt_that_can_never_fit_is_refused_with_numbers() -> None:
    with pytest.raises(ContextOverflow) as caught:
        small().submit(GenerationRequest([1] * (CONTEXT + 1), SEEDED))
    assert (caught.value.tokens, caught.value.limit) == (CONTEXT + 1, CONTEXT)


def letters() -> ScriptedDetokenizer:
    return ScriptedDetokenizer(dict.fromkeys(range(32), b"a"))


def test_a_stream_that_has_to_wait_for_an_older_prompt_may_be_all_that_a_step_has() -> None:
    """A prompt that is told leaves places to others; now and then comes a step without any of it."""
    told = Logprobs(0, of_prompt=True)
    most = GenerationConfig(temperature=0, max_tokens=100, ignore_eos=True)
    for length in range(2, 8):
        decoder = HistoryDecoder(context_length=256, kv_capacity=256)
        scheduler = StepwiseScheduler(decoder)
        decoder.on_forward = partial(pass_time, scheduler)
        older = scheduler.submit(GenerationRequest([1] * 231, most, letters, logprobs=told))
        younger = scheduler.submit(GenerationRequest([2] * length, most, letters))
        scheduler.run()
        assert (len(older.ended[0].tokens), len(younger.ended[0].tokens)) == (25, 100)
        assert scheduler.snapshot.totals.preemptions > 0


def pass_time(scheduler: StepwiseScheduler, batch: Batch) -> None:
    """Let a token of a prompt take the longer while streams run."""
    seconds = 0.006 if scheduler.snapshot.decoding else 0.0015
    scheduler.now += 0.01 + seconds * len(batch.tokens)


def test_a_decoder_that_has_less_room_than_it_says_fails_the_request_and_not_the_scheduler() -> None:
    decoder = HistoryDecoder(context_length=CONTEXT, kv_capacity=16)
    scheduler = StepwiseScheduler(decoder)
    submitted = ask(scheduler, 1)
    scheduler.run()
    assert isinstance(submitted.error, BackendFailure)
    short = scheduler.submit(GenerationRequest([1, 2], GenerationConfig(max_tokens=2)))
    scheduler.run()
    assert len(short.ended[0].tokens) == 2


def test_a_failing_step_fails_what_was_in_it_and_no_more() -> None:
    failures = iter([None, None, BackendFailure("the device is gone")])

    def fail(batch: Batch) -> None:
        error = next(failures, None)
        if error is not None:
            raise error

    decoder = HistoryDecoder(context_length=CONTEXT, on_forward=fail)
    scheduler = StepwiseScheduler(decoder, SchedulerLimits(running=2))
    asked = [ask(scheduler, number) for number in range(4)]
    scheduler.run()
    assert [str(submitted.error) for submitted in asked[:2]] == ["the device is gone"] * 2
    assert [submitted.ended[0].tokens for submitted in asked[2:]] == [alone(2), alone(3)]
    assert scheduler.snapshot.totals.failed == {"BackendFailure": 2}
    scheduler.close()
    assert decoder.open_sequences == 0


def test_logits_that_are_not_finite_fail_their_own_request() -> None:
    decoder = HistoryDecoder(context_length=CONTEXT, poison=9)
    scheduler = StepwiseScheduler(decoder)
    healthy = GenerationConfig(max_tokens=30, bad_words=((9,),))
    good = scheduler.submit(GenerationRequest([1, 2, 3], healthy))
    bad = scheduler.submit(GenerationRequest([3, 9], SEEDED, n=3))
    greedy = scheduler.submit(GenerationRequest([4, 9], GenerationConfig(temperature=0)))
    scheduler.run()
    assert good.ended[0].tokens == generate(HistoryDecoder(), [1, 2, 3], healthy).tokens
    for failed in (bad, greedy):
        assert "not finite" in str(failed.error) and not failed.ended
    assert scheduler.snapshot.totals.failed == {"InvalidLogits": 2}
