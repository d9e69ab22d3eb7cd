"""Tokens that are guessed ahead come sooner, and are those that would have come."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.answer import Generation, StopReason
from rase_core.decoder import Batch, Logits
from rase_core.generation import generate
from rase_core.logprobs import Logprobs
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.drafts import Drafts
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder, ScriptedDetokenizer

CHEAP = 8
TURN = [3, 1, 4, 1, 5, 9, 2, 6]
GREEDY = GenerationConfig(temperature=0, max_tokens=40)
LIMITS = SchedulerLimits(draft_tokens=CHEAP - 1)


class Repeating(HistoryDecoder):
    """A decoder that goes round and round, but skips a token at the positions `slips`."""

    def __init__(
        self, slips: Sequence[int] = (), cheap_rows: int = CHEAP, kv_capacity: int | None = None
    ) -> None:
        self.rows: list[int] = []
        self._slips = frozenset(slips)
        super().__init__(
            cheap_rows=cheap_rows,
            kv_capacity=kv_capacity,
            eos_tokens=frozenset({31}),
            on_forward=lambda batch: self.rows.append(len(batch.tokens)),
        )

    def _logits(self, history: Sequence[int]) -> Logits:
        row = super()._logits(history)
        row[TURN[(len(history) + (len(history) in self._slips)) % len(TURN)]] += 12
        return row


def letters() -> ScriptedDetokenizer:
    return ScriptedDetokenizer({token: bytes([ord("a") + token]) for token in range(26)})


def asked(
    decoder: HistoryDecoder, request: GenerationRequest, limits: SchedulerLimits = LIMITS
) -> tuple[Submitted, StepwiseScheduler]:
    scheduler = StepwiseScheduler(decoder, limits)
    submitted = scheduler.submit(request)
    scheduler.run()
    return submitted, scheduler


def same(one: Generation, other: Generation) -> None:
    for name in ("tokens", "text", "stop_reason", "stop", "logprobs"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("slips", [(), (20,), (17, 18, 30), tuple(range(12, 48, 5))])
@pytest.mark.parametrize(
    "config",
    [
        GREEDY,
        GenerationConfig(max_tokens=40, seed=5, top_k=3),
        GenerationConfig(temperature=0, max_tokens=40, repetition_penalty=1.1),
        GenerationConfig(max_tokens=40, seed=1, presence_penalty=0.5, dry_multiplier=0.5),
        GenerationConfig(temperature=0, max_tokens=40, stop=("ebfjc",)),
    ],
)
def test_an_answer_is_the_one_without_guesses(config: GenerationConfig, slips: tuple[int, ...]) -> None:
    request = GenerationRequest(TURN + TURN, config, letters, logprobs=Logprobs(2))
    submitted, scheduler = asked(Repeating(slips), request)
    alone = generate(Repeating(slips), request.prompt, config, detokenizer=letters(), logprobs=Logprobs(2))
    same(submitted.ended[0], alone)
    assert submitted.text() == alone.text
    totals, ended = scheduler.snapshot.totals, submitted.ended[0]
    assert 0 < totals.accepted_tokens <= totals.drafted_tokens
    assert (ended.accepted_tokens, ended.drafted_tokens) == (totals.accepted_tokens, totals.drafted_tokens)
    assert totals.generated_tokens == len(alone.tokens)


def test_a_text_that_repeats_takes_an_eighth_of_the_steps() -> None:
    decoder = Repeating()
    submitted, _ = asked(decoder, GenerationRequest(TURN + TURN, GREEDY))
    assert len(submitted.ended[0].tokens) == 40
    assert decoder.rows == [16, 8, 8, 8, 8, 7]  # the last step is asked for no more than is wanted


def test_nothing_is_guessed_where_rows_are_not_cheap_or_guessing_is_off() -> None:
    for decoder, limits in (
        (Repeating(cheap_rows=1), LIMITS),
        (Repeating(), SchedulerLimits(draft_tokens=0)),
    ):
        _, scheduler = asked(decoder, GenerationRequest(TURN + TURN, GREEDY), limits)
        assert scheduler.snapshot.totals.drafted_tokens == 0
        assert set(decoder.rows) == {16, 1}


def test_streams_share_the_rows_that_are_cheap() -> None:
    decoder = Repeating()
    scheduler = StepwiseScheduler(decoder, LIMITS)
    together = [scheduler.submit(GenerationRequest([*TURN, *TURN], GREEDY)) for _ in range(3)]
    scheduler.run()
    for submitted in together:
        same(submitted.ended[0], generate(Repeating(), TURN + TURN, GREEDY))
    assert decoder.rows[2:6] == [9, 6, 6, 6]  # with all of a prompt that is short; then a guess for each
    assert scheduler.snapshot.totals.accepted_tokens > 0


def test_beside_a_prompt_no_more_rows_are_computed_than_are_cheap() -> None:
    decoder = Repeating()
    scheduler = StepwiseScheduler(decoder, LIMITS)
    scheduler.submit(GenerationRequest(TURN + TURN, GenerationConfig(temperature=0, max_tokens=100)))
    for _ in range(4):
        scheduler.step()
    drafted = scheduler.snapshot.totals.drafted_tokens
    scheduler.submit(GenerationRequest([7] * 90, GREEDY))
    scheduler.step()
    assert decoder.rows[-1] >= CHEAP
    assert scheduler.snapshot.totals.drafted_tokens == drafted


def test_what_was_guessed_wrongly_is_no_prefix_of_later_prompts() -> None:
    decoder = Repeating(slips=(21,))
    scheduler = StepwiseScheduler(decoder, LIMITS)
    for prompt in (TURN + TURN, TURN * 5, [*TURN, *TURN, *TURN[:5], 7, 7]):
        submitted = scheduler.submit(GenerationRequest(prompt, GREEDY))
        scheduler.run()
        same(submitted.ended[0], generate(Repeating(slips=(21,)), prompt, GREEDY))
    scheduler.close()
    assert decoder.open_sequences == 0


def test_guesses_take_no_memory_that_another_needs() -> None:
    decoder = Repeating(kv_capacity=128)
    scheduler = StepwiseScheduler(decoder, LIMITS)
    config = GenerationConfig(temperature=0, max_tokens=48)
    together = [scheduler.submit(GenerationRequest(TURN + TURN, config)) for _ in range(2)]
    scheduler.run()
    for submitted in together:
        same(submitted.ended[0], generate(Repeating(), TURN + TURN, config))
    assert scheduler.snapshot.totals.preemptions == 0


def test_an_answer_may_fill_the_context_with_guesses() -> None:
    config = GenerationConfig(temperature=0, max_tokens=1000)
    submitted, _ = asked(Repeating(), GenerationRequest(TURN + TURN, config))
    assert submitted.ended[0].stop_reason is StopReason.CONTEXT_FULL
    same(submitted.ended[0], generate(Repeating(), TURN + TURN, config))


class Leaving(ScriptedDetokenizer):
    """Calls `leave` with the fifth token."""

    def __init__(self, leave: Callable[[], None]) -> None:
        super().__init__({})
        self._leave, self._tokens = leave, 0

    def push(self, token: int) -> bytes:
        self._tokens += 1
        if self._tokens == 5:
            self._leave()
        return super().push(token)


def test_whoever_leaves_between_two_tokens_of_a_step_gets_no_more() -> None:
    decoder = Repeating()
    scheduler = StepwiseScheduler(decoder, LIMITS)
    request = GenerationRequest(TURN + TURN, GREEDY, lambda: Leaving(lambda: submitted.cancel()))
    submitted = scheduler.submit(request)
    scheduler.run()
    assert decoder.rows == [16, 8]  # the second step told of eight tokens
    assert submitted.ended[0].stop_reason is StopReason.CANCELLED
    assert len(submitted.ended[0].tokens) == len(submitted.tokens()) == 5


def test_nothing_is_guessed_for_several_choices_before_they_part() -> None:
    config = GenerationConfig(max_tokens=12, seed=2, top_k=4)
    submitted, _ = asked(Repeating(), GenerationRequest(TURN + TURN, config, n=3))
    for choice in range(3):
        same(submitted.ended[choice], generate(Repeating(), TURN + TURN, config, choice=choice))


tokens = st.lists(st.integers(0, 3), max_size=40)


@given(tokens, tokens, st.integers(0, 7))
def test_a_guess_is_what_followed_the_last_two_tokens_the_last_time(
    known: list[int], added: list[int], most: int
) -> None:
    drafts, text = Drafts(), known + added
    drafts.guess(np.array(known, np.int32), 0)
    guess = drafts.guess(np.array(text, np.int32), most).tolist()
    places = [i for i in range(2, len(text)) if text[i - 2 : i] == text[-2:]]
    expected = list(text)
    for _ in range(most if places else 0):
        expected.append(expected[places[-1] + len(expected) - len(text)])
    assert guess == expected[len(text) :]


def test_less_is_guessed_while_guesses_fail_and_more_again_when_they_would_not() -> None:
    drafts, text = Drafts(), [1, 2]
    counts = []
    for followed in [8, 9, 10, 11, 12, 13]:  # after 1 2 comes something else each time
        text += [followed, 1, 2]
        counts.append(len(drafts.guess(np.array(text, np.int32), 7)))
    assert counts == [7, 3, 1, 0, 0, 0]
    for _ in range(3):
        text += [13, 1, 2]
        counts.append(len(drafts.guess(np.array(text, np.int32), 7)))
    assert counts[6:] == [1, 3, 7]


def test_of_a_long_prompt_only_the_end_is_looked_through() -> None:
    text = np.arange(20_000, dtype=np.int32) % 9973
    far, near = (np.append(text, text[place : place + 2]) for place in (100, 19_000))
    assert Drafts().guess(far, 2).tolist() == []
    assert Drafts().guess(near, 2).tolist() == text[19_002:19_004].tolist()


def test_batches_tell_where_guesses_are() -> None:
    batches: list[Batch] = []
    decoder = Repeating()
    decoder.on_forward = batches.append
    asked(decoder, GenerationRequest(TURN + TURN, GREEDY))
    assert batches[1].tokens.tolist() == TURN
    assert batches[1].positions.tolist() == list(range(16, 24))
    assert batches[1].outputs.tolist() == list(range(8))
