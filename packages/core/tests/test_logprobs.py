"""Log probabilities of answers and prompts, against a softmax of its own in float64."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.decoder import Batch, Logits
from rase_core.errors import InvalidParameter
from rase_core.generation import Generation, StopReason, TokenEvent, generate, generate_with
from rase_core.logprobs import MOST_TOP, Logprobs, TokenLogprobs, log_softmax
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import GenerationRequest, SchedulerLimits
from rase_core.scheduler.plan import MOST_TOLD
from rase_core.scheduler.testing import StepwiseScheduler, Submitted
from rase_core.testing import HistoryDecoder, ScriptedDecoder, ScriptedDetokenizer

LETTERS = ScriptedDetokenizer({token: bytes([ord("a") + token]) for token in range(26)})
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def expected(logits: Logits) -> np.ndarray:
    """All log probabilities, the plain way."""
    values = logits.astype(np.float64)
    values -= values.max()
    shares: np.ndarray = values - np.log(np.exp(values).sum())
    return shares


def row(history: list[int]) -> Logits:
    return HistoryDecoder().prefill(history)


def answer(script: list[int], **config: Any) -> tuple[Generation, list[TokenEvent]]:
    events: list[TokenEvent] = []
    generation = generate_with(
        ScriptedDecoder(script, eos_tokens=frozenset({31})),
        [1],
        GenerationConfig(temperature=0, **config),
        on_token=events.append,
        detokenizer=LETTERS,
        logprobs=Logprobs(top=2),
    )
    return generation, events


@given(st.lists(st.floats(-500, 500, width=32), min_size=1, max_size=300), st.data())
def test_log_probabilities_are_those_of_a_softmax(values: list[float], data: st.DataObject) -> None:
    logits = np.array(values, np.float32)
    tokens = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5)), np.intp)
    np.testing.assert_allclose(log_softmax(logits, tokens), expected(logits)[tokens], atol=1e-4)


def test_each_token_is_told_with_the_likeliest_in_its_place() -> None:
    decoder = HistoryDecoder()
    config = GenerationConfig(max_tokens=5, temperature=1.5, top_k=0, seed=3)
    generation = generate(decoder, PROMPT, config, detokenizer=LETTERS, logprobs=Logprobs(top=3))
    assert generation.logprobs is not None
    assert [told.token for told in generation.logprobs] == list(generation.tokens)
    history = list(PROMPT)
    for told in generation.logprobs:
        values = expected(row(history))
        assert told.logprob == pytest.approx(values[told.token], abs=1e-5)
        assert [likely.token for likely in told.top] == np.argsort(-values)[:3].tolist()
        assert [likely.logprob for likely in told.top] == pytest.approx(np.sort(values)[::-1][:3], abs=1e-5)
        history.append(told.token)


def test_they_are_the_models_own_whatever_bends_the_choice() -> None:
    decoder = HistoryDecoder()
    likeliest = int(np.argmax(row(PROMPT)))
    config = GenerationConfig(
        max_tokens=1, temperature=0.1, logit_bias={likeliest: -math.inf}, repetition_penalty=2.0
    )
    generation = generate(decoder, PROMPT, config, detokenizer=LETTERS, logprobs=Logprobs(top=1))
    assert generation.logprobs is not None
    (told,) = generation.logprobs
    assert told.top[0].token == likeliest != told.token
    assert told.logprob == pytest.approx(expected(row(PROMPT))[told.token], abs=1e-5)


def test_nothing_is_told_unasked() -> None:
    generation = generate(HistoryDecoder(), PROMPT, GenerationConfig(max_tokens=3), detokenizer=LETTERS)
    assert generation.logprobs is None
    assert generation.prompt_logprobs is None


def test_what_is_told_comes_with_its_text_and_all_of_it_comes() -> None:
    generation, events = answer([0, 1, 2, 31], stop=["abx"])
    assert [event.text for event in events] == ["", "", "abc"]
    assert [len(event.logprobs) for event in events] == [0, 0, 3]
    assert generation.logprobs == events[-1].logprobs
    assert [told.offset for told in generation.logprobs or ()] == [0, 1, 2]


def test_the_tokens_of_a_stop_string_are_not_told() -> None:
    generation, events = answer([0, 1, 2, 3], stop=["cd"])
    assert generation.stop_reason is StopReason.STOP_STRING
    assert generation.text == "ab"
    assert [told.piece for told in generation.logprobs or ()] == [b"a", b"b"]
    assert [told for event in events for told in event.logprobs] == list(generation.logprobs or ())


def test_what_is_held_back_at_the_end_is_told_last() -> None:
    generation, events = answer([0, 1], stop=["abx"], max_tokens=2)
    assert events[-1].token is None
    assert [told.piece for told in events[-1].logprobs] == [b"a", b"b"]
    assert len(generation.logprobs or ()) == 2


def test_the_tokens_of_one_character_are_told_with_it() -> None:
    pieces = ScriptedDetokenizer({1: "é".encode()[:1], 2: "é".encode()[1:], 3: b"!"})
    events: list[TokenEvent] = []
    generation = generate_with(
        ScriptedDecoder([1, 2, 3, 1]),
        [1],
        GenerationConfig(temperature=0, max_tokens=4),
        on_token=events.append,
        detokenizer=pieces,
        logprobs=Logprobs(),
    )
    assert [len(event.logprobs) for event in events] == [0, 2, 1, 0, 1]
    told = generation.logprobs or ()
    assert [one.offset for one in told] == [0, 0, 1, 2]
    assert b"".join(one.piece for one in told) == "é!".encode() + "é".encode()[:1]


@pytest.mark.parametrize("top", [-1, MOST_TOP + 1, True, 1.5])
def test_an_impossible_number_is_refused(top: object) -> None:
    with pytest.raises(InvalidParameter, match="logprobs"):
        Logprobs(top)  # type: ignore[arg-type]


def test_without_text_there_is_nothing_to_tell() -> None:
    with pytest.raises(InvalidParameter, match="logprobs"):
        generate(HistoryDecoder(), PROMPT, GenerationConfig(), logprobs=Logprobs())


def scheduled(*requests: GenerationRequest, **limits: Any) -> list[Submitted]:
    scheduler = StepwiseScheduler(HistoryDecoder(**limits), SchedulerLimits(gap_steps=3.0))
    submitted = [scheduler.submit(request) for request in requests]
    scheduler.run()
    return submitted


def request(prompt: list[int], logprobs: Logprobs | None, **others: object) -> GenerationRequest:
    config = GenerationConfig(max_tokens=others.pop("max_tokens", 4), seed=5)  # type: ignore[arg-type]
    return GenerationRequest(prompt, config, lambda: LETTERS, logprobs=logprobs, **others)  # type: ignore[arg-type]


def test_a_scheduler_tells_the_same_as_the_request_alone_gets() -> None:
    config = GenerationConfig(max_tokens=4, seed=5)
    alone = generate(HistoryDecoder(), PROMPT, config, detokenizer=LETTERS, logprobs=Logprobs(3))
    others = [request([7, value], Logprobs(1)) for value in range(3)]
    submitted, *_ = scheduled(request(PROMPT, Logprobs(3)), *others)
    assert submitted.ended[0].logprobs == alone.logprobs
    told = [one for _, event in submitted.events for one in getattr(event, "logprobs", ())]
    assert tuple(told) == alone.logprobs


def check_prompt(told: tuple[TokenLogprobs, ...] | None, prompt: list[int]) -> None:
    assert told is not None
    assert [one.token for one in told] == prompt
    assert told[0].logprob is None
    for index, one in enumerate(told[1:], 1):
        values = expected(row(prompt[:index]))
        assert one.logprob == pytest.approx(values[one.token], abs=1e-5)
        assert one.top[0].token == int(np.argmax(values))
        assert one.offset == index


@pytest.mark.parametrize("length", [1, 2, 8, 100])
def test_a_prompt_is_told_whatever_is_cached_of_it(length: int) -> None:
    prompt = [token % 26 for token in range(length)]
    asked = Logprobs(top=2, of_prompt=True)
    scheduler = StepwiseScheduler(HistoryDecoder(context_length=256))
    first = scheduler.submit(request(prompt, None))
    scheduler.run()
    both = [scheduler.submit(request(prompt, asked)), scheduler.submit(request(prompt, asked, n=3))]
    scheduler.run()
    for submitted in both:
        for generation in submitted.ended.values():
            check_prompt(generation.prompt_logprobs, prompt)
    assert both[0].ended[0].text == first.ended[0].text
    assert [len(generation.tokens) for generation in both[1].ended.values()] == [4, 4, 4]


@pytest.mark.parametrize("n", [1, 2])
def test_a_prompt_is_told_without_an_answer(n: int) -> None:
    asked = Logprobs(top=1, of_prompt=True)
    (submitted,) = scheduled(request(PROMPT, asked, max_tokens=0, n=n))
    assert len(submitted.ended) == n
    for generation in submitted.ended.values():
        check_prompt(generation.prompt_logprobs, PROMPT)
        assert generation.tokens == ()
        assert generation.stop_reason is StopReason.MAX_TOKENS


def test_a_prompt_is_told_while_memory_is_short() -> None:
    prompts = [[value, *PROMPT * 3] for value in range(4)]
    requests = [request(prompt, Logprobs(1, of_prompt=True), max_tokens=12) for prompt in prompts]
    for prompt, submitted in zip(prompts, scheduled(*requests, kv_capacity=72), strict=True):
        check_prompt(submitted.ended[0].prompt_logprobs, prompt)


def test_a_step_has_few_rows_of_prompts_that_are_told_however_many_there_are() -> None:
    rows: list[int] = []

    class Counting(HistoryDecoder):
        def forward(self, batch: Batch) -> Logits:
            rows.append(len(batch.outputs))
            return super().forward(batch)

    scheduler = StepwiseScheduler(Counting(context_length=256))
    prompts = [[value, *[token % 26 for token in range(99)]] for value in range(4)]
    submitted = [scheduler.submit(request(prompt, Logprobs(1, of_prompt=True))) for prompt in prompts]
    scheduler.run()
    assert max(rows) <= MOST_TOLD + len(prompts)
    for prompt, one in zip(prompts, submitted, strict=True):
        check_prompt(one.ended[0].prompt_logprobs, prompt)


def test_choices_share_what_is_told_of_the_prompt() -> None:
    (submitted,) = scheduled(request(PROMPT, Logprobs(1, of_prompt=True), n=3))
    first, *others = (generation.prompt_logprobs for generation in submitted.ended.values())
    assert first is not None and len(others) == 2
    for other in others:
        assert other is not None and all(a is b for a, b in zip(first, other, strict=True))


def test_generate_alone_tells_nothing_of_the_prompt() -> None:
    with pytest.raises(InvalidParameter, match="logprobs"):
        generate(
            HistoryDecoder(),
            PROMPT,
            GenerationConfig(),
            detokenizer=LETTERS,
            logprobs=Logprobs(of_prompt=True),
        )
