from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.decoder import Logits, TokenDecoder
from rase_core.errors import (
    BackendFailure,
    ContextOverflow,
    InvalidGenerationConfig,
    InvalidLogits,
    InvalidParameter,
)
from rase_core.generation import Generation, StopReason, TokenEvent, generate, generate_with
from rase_core.sampling import GenerationConfig
from rase_core.testing import ScriptedDecoder, ScriptedDetokenizer

GREEDY = GenerationConfig(temperature=0, max_tokens=8)
LETTERS = ScriptedDetokenizer({token: bytes([ord("a") + token]) for token in range(26)})


def greedy(**changes: object) -> GenerationConfig:
    return GenerationConfig.from_mapping(changes, GREEDY)


def spell(word: str, eos_tokens: Sequence[int] = (31,)) -> ScriptedDecoder:
    return ScriptedDecoder([ord(letter) - ord("a") for letter in word], eos_tokens=frozenset(eos_tokens))


def events_of(decoder: TokenDecoder, config: GenerationConfig) -> tuple[list[TokenEvent], Generation]:
    events: list[TokenEvent] = []
    generation = generate_with(decoder, [1], config, on_token=events.append, detokenizer=LETTERS)
    return events, generation


def test_it_prefills_the_prompt_and_decodes_each_token_but_the_last() -> None:
    decoder = ScriptedDecoder([5, 6, 7])
    generation = generate(decoder, [1, 2], greedy(max_tokens=3))
    assert generation.tokens == (5, 6, 7)
    assert (generation.stop_reason, generation.prompt_tokens) == (StopReason.MAX_TOKENS, 2)
    assert decoder.calls == [(1, 2), 5, 6]
    assert generation.prefill_seconds >= 0 and generation.decode_seconds >= 0


def test_a_scripted_decoder_is_a_token_decoder() -> None:
    assert isinstance(ScriptedDecoder([1]), TokenDecoder)


@pytest.mark.parametrize("config", [greedy(), greedy(stop_tokens=[9])])
def test_a_stop_token_ends_the_answer_and_is_no_part_of_it(config: GenerationConfig) -> None:
    decoder = ScriptedDecoder([5, 9, 7], eos_tokens=frozenset() if config.stop_tokens else frozenset({9}))
    generation = generate(decoder, [1], config, detokenizer=LETTERS)
    assert (generation.tokens, generation.text) == ((5,), "f")
    assert (generation.stop_reason, generation.stop) == (StopReason.STOP_TOKEN, None)


def test_end_tokens_of_the_model_can_be_ignored_but_not_those_asked_for() -> None:
    decoder = ScriptedDecoder([5, 9, 7, 8], eos_tokens=frozenset({9}))
    generation = generate(decoder, [1], greedy(ignore_eos=True, stop_tokens=[8]))
    assert generation.tokens == (5, 9, 7)


def test_a_stop_string_across_tokens_is_cut_off() -> None:
    events, generation = events_of(spell("helloworld"), greedy(stop=["low"], max_tokens=20))
    assert (generation.text, generation.stop) == ("hel", "low")
    assert (generation.stop_reason, len(generation.tokens)) == (StopReason.STOP_STRING, 6)
    assert [event.text for event in events] == ["h", "e", "", "l", "", ""]


def test_text_held_back_at_the_end_is_in_a_last_event_without_a_token() -> None:
    events, generation = events_of(spell("abc"), greedy(stop=["cd"], max_tokens=3))
    assert [(event.token, event.text) for event in events] == [(0, "a"), (1, "b"), (2, ""), (None, "c")]
    assert generation.text == "abc"


def test_characters_come_whole_and_one_cut_short_does_not_come() -> None:
    pieces = ScriptedDetokenizer({1: "é".encode()[:1], 2: "é".encode()[1:], 3: b"!"})
    decoder = ScriptedDecoder([1, 2, 3, 1])
    texts: list[str] = []
    generation = generate_with(
        decoder,
        [1],
        greedy(max_tokens=4),
        on_token=lambda event: texts.append(event.text),
        detokenizer=pieces,
    )
    assert texts == ["", "é", "!", ""]
    assert generation.text == "é!"


@given(
    st.text(alphabet="ab", min_size=1, max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_the_events_add_up_to_the_text(word: str, stops: list[str]) -> None:
    events, generation = events_of(spell(word), greedy(stop=stops, max_tokens=len(word)))
    assert "".join(event.text for event in events) == generation.text
    assert not any(stop in generation.text for stop in stops)
    assert tuple(event.token for event in events if event.token is not None) == generation.tokens


def test_false_from_the_callback_stops_with_what_it_has_seen() -> None:
    events: list[TokenEvent] = []

    def refuse_third(event: TokenEvent) -> bool:
        events.append(event)
        return len(events) < 3

    decoder = spell("abcdef")
    generation = generate_with(decoder, [1], greedy(stop=["cx"]), on_token=refuse_third, detokenizer=LETTERS)
    assert (generation.stop_reason, generation.text) == (StopReason.CANCELLED, "ab")
    assert len(events) == 3 and decoder.calls == [(1,), 0, 1]


def test_false_for_the_last_token_leaves_the_reason_that_ended_the_answer() -> None:
    config = greedy(stop=["cx"], max_tokens=3)
    generation = generate_with(
        spell("abcdef"), [1], config, on_token=lambda event: event.text != "", detokenizer=LETTERS
    )
    assert (generation.stop_reason, generation.text) == (StopReason.MAX_TOKENS, "ab")


def test_cancelled_before_the_prefill_computes_nothing() -> None:
    decoder = ScriptedDecoder([1])
    generation = generate(decoder, [1], GREEDY, lambda: True)
    assert (generation.stop_reason, generation.tokens, decoder.calls) == (StopReason.CANCELLED, (), [])
    assert not generation.is_started


def test_cancelled_is_asked_before_every_decode() -> None:
    decoder = spell("abc")
    asked = iter([False, False, True])
    generation = generate(decoder, [1], GREEDY, lambda: next(asked), detokenizer=LETTERS)
    assert (generation.stop_reason, generation.text) == (StopReason.CANCELLED, "ab")
    assert decoder.calls == [(1,), 0]


def test_it_ends_when_the_context_is_full() -> None:
    decoder = ScriptedDecoder([5], context_length=4)
    generation = generate(decoder, [1, 2], GREEDY)
    assert (generation.stop_reason, generation.tokens) == (StopReason.CONTEXT_FULL, (5, 5))


def test_a_prompt_that_fills_the_context_gets_an_empty_answer() -> None:
    decoder = ScriptedDecoder([5], context_length=2)
    generation = generate(decoder, [1, 2], GREEDY)
    assert (generation.stop_reason, generation.tokens, decoder.calls) == (StopReason.CONTEXT_FULL, (), [])


def test_no_tokens_asked_for_computes_nothing() -> None:
    decoder = ScriptedDecoder([5])
    generation = generate(decoder, [1], greedy(max_tokens=0))
    assert (generation.stop_reason, generation.tokens, decoder.calls) == (StopReason.MAX_TOKENS, (), [])
    assert not generation.is_started and generate(decoder, [1], greedy(max_tokens=1)).is_started


def test_a_prompt_longer_than_the_context_is_an_error() -> None:
    with pytest.raises(ContextOverflow, match=r"3 tokens.* 2 tokens"):
        generate(ScriptedDecoder([5], context_length=2), [1, 2, 3], GREEDY)


@pytest.mark.parametrize(
    ("prompt", "config", "choice", "parameter"),
    [
        ([], GREEDY, 0, "prompt"),
        ([32], GREEDY, 0, "prompt"),
        ([-1], GREEDY, 0, "prompt"),
        ([1.5], GREEDY, 0, "prompt"),
        ([True], GREEDY, 0, "prompt"),
        ([1, np.False_], GREEDY, 0, "prompt"),
        (["a"], GREEDY, 0, "prompt"),
        ([1], greedy(stop=["x"]), 0, "stop"),
        ([1], GREEDY, -1, "choice"),
    ],
)
def test_a_request_that_makes_no_sense_is_named(
    prompt: list[Any], config: GenerationConfig, choice: int, parameter: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        generate(ScriptedDecoder([5]), prompt, config, choice=choice)
    assert caught.value.parameter == parameter


def test_bad_logits_name_their_position() -> None:
    bad = np.full(32, np.nan, np.float32)
    with pytest.raises(InvalidLogits) as caught:
        generate(ScriptedDecoder([5, bad]), [1, 2, 3], GREEDY)
    assert caught.value.position == 4


class FailingDecoder(ScriptedDecoder):
    def decode(self, token: int) -> Logits:
        raise BackendFailure("out of memory")


def test_a_failing_backend_is_heard_of() -> None:
    with pytest.raises(BackendFailure, match="out of memory"):
        generate(FailingDecoder([5]), [1], GREEDY)


def test_choices_differ_and_a_resumed_answer_goes_on_as_it_would_have() -> None:
    flat = np.zeros(32, np.float32)
    config = GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0, max_tokens=20)
    whole = generate(ScriptedDecoder([flat]), [1], config).tokens
    assert generate(ScriptedDecoder([flat]), [1], config).tokens == whole
    assert generate(ScriptedDecoder([flat]), [1], config, choice=1).tokens != whole
    rest = generate(ScriptedDecoder([flat]), [1, *whole[:7]], config).tokens
    assert rest[:13] == whole[7:]


def test_a_prompt_may_be_an_array() -> None:
    decoder = ScriptedDecoder([5])
    generate(decoder, np.array([1, 2], np.int32), greedy(max_tokens=1))  # type: ignore[arg-type]
    assert decoder.calls == [(1, 2)]


def test_penalties_see_the_prompt() -> None:
    decoder = ScriptedDecoder([np.array([1.0, 0.9, 0.0], np.float32)], vocab_size=3)
    assert generate(decoder, [0], greedy(presence_penalty=0.5, max_tokens=1)).tokens == (1,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop_tokens", [3, 32]),
        ("dry_sequence_breakers", [32]),
        ("logit_bias", {32: 1.0}),
        ("bad_words", [[3], [32, 3]]),
    ],
)
def test_settings_with_tokens_outside_the_vocabulary_are_refused(name: str, value: object) -> None:
    decoder = ScriptedDecoder([5, 6, 7])
    with pytest.raises(InvalidGenerationConfig, match=f"{name}: 32, expected token ids of 0 to 31"):
        generate(decoder, [1], greedy(**{name: value}))
    assert decoder.calls == []
