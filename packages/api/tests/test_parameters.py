import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError
from rase_api.errors import InvalidType, InvalidValue, RequestError, UnknownParameter, UnsupportedParameter
from rase_api.schemas import ChatRequest, CompletionRequest
from rase_api.schemas.ollama import OllamaGenerate
from rase_api.schemas.openai import OpenAIRequest
from rase_api.validation import request_error
from rase_core.errors import InvalidGenerationConfig
from rase_core.sampling import GenerationConfig

SAMPLING = OpenAIRequest.sampling
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "demo", "prompt": "Hi"}

SAMPLES = {
    "temperature": 1.5,
    "top_p": 0.5,
    "top_k": 7,
    "min_p": 0.1,
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "repetition_penalty": 1.1,
    "repeat_penalty": 1.1,
    "penalty_last_n": 8,
    "repeat_last_n": 8,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
    "dry_multiplier": 0.8,
    "dry_base": 2.0,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 10,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "seed": 42,
    "ignore_eos": True,
}
"""Parameters whose value goes into the GenerationConfig as it is."""

WRONG_TYPES: dict[str, list[object]] = {
    "temperature": ["1", True, [], {}],
    "top_p": ["1", False],
    "top_k": ["1", 1.0, True, [1]],
    "min_p": ["1", True],
    "max_tokens": ["5", 5.5, 5.0, True],
    "max_completion_tokens": ["5", True],
    "repetition_penalty": ["1"],
    "presence_penalty": [True],
    "frequency_penalty": [[]],
    "dry_allowed_length": [2.0],
    "xtc_probability": ["0"],
    "logit_bias": [[], "x", {"5": "1"}, {"5": True}],
    "bad_words": ["x", [5], [[]], [[True]], [""], [["a"]]],
    "seed": ["1", 1.5, True],
    "stop": [5, [5], {}, True],
    "stop_token_ids": [5, ["5"], [True], [1.0]],
    "ignore_eos": [1, "true"],
    "stream": [1, "true", []],
    "stream_options": [True, []],
    "n": ["1", True, 1.0],
    "model": [5, ["demo"]],
    "user": [5],
    "metadata": ["x"],
}

OUT_OF_RANGE: dict[str, list[object]] = {
    "temperature": [-0.1, 1e300],
    "top_p": [-0.1, 1.1],
    "top_k": [-1, 10**30],
    "max_tokens": [-1, 10**30],
    "max_completion_tokens": [-1],
    "repeat_penalty": [0],
    "seed": [-2, 2**64],
    "stop": ["", [""]],
    "stop_token_ids": [[-1]],
    "dry_base": [0],
    "xtc_threshold": [2],
}


@pytest.mark.parametrize(("name", "value"), SAMPLES.items())
def test_every_sampling_parameter_reaches_its_field(name: str, value: object) -> None:
    config = ChatRequest.parse(CHAT | {name: value}).config(GenerationConfig())
    changes: dict[str, Any] = {SAMPLING[name]: value}
    assert config == dataclasses.replace(GenerationConfig(), **changes)
    assert config != GenerationConfig()


def test_the_table_names_every_field_that_a_request_can_set() -> None:
    fields = {field.name for field in dataclasses.fields(GenerationConfig)}
    assert set(SAMPLING.values()) == fields - {"bad_words", "dry_sequence_breakers"}
    assert set(SAMPLING) <= set(OpenAIRequest.model_fields)


@pytest.mark.parametrize("name", [name for name in ChatRequest.model_fields if name not in CHAT])
def test_null_means_the_default_in_chat(name: str) -> None:
    request = ChatRequest.parse(CHAT | {name: None})
    assert request.config(GenerationConfig()) == GenerationConfig()
    assert request.choices == 1


@pytest.mark.parametrize("name", [name for name in CompletionRequest.model_fields if name not in COMPLETION])
def test_null_means_the_default_in_completions(name: str) -> None:
    request = CompletionRequest.parse(COMPLETION | {name: None})
    assert request.config(GenerationConfig()) == GenerationConfig()


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_TYPES.items() for value in values]
)
def test_a_wrong_type_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidType) as failure:
        ChatRequest.parse(CHAT | {name: value})
    assert failure.value.param is not None
    assert failure.value.param.startswith(name)
    assert name in failure.value.message


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OUT_OF_RANGE.items() for value in values]
)
def test_a_value_out_of_range_is_refused_by_the_core(name: str, value: object) -> None:
    request = ChatRequest.parse(CHAT | {name: value})
    with pytest.raises(InvalidGenerationConfig) as failure:
        request.config(GenerationConfig())
    assert request.names[failure.value.parameter] == name


def test_all_unknown_parameters_are_named() -> None:
    with pytest.raises(UnknownParameter, match="'temprature', 'top_x'") as failure:
        ChatRequest.parse(CHAT | {"temprature": 1, "top_x": None, "temperature": "wrong"})
    assert failure.value.param == "temprature"


def test_values_of_a_request_go_over_those_of_the_model_and_stops_are_added() -> None:
    defaults = GenerationConfig(temperature=0.1, top_k=3, stop=("a", "b"), stop_tokens=frozenset({1}))
    config = ChatRequest.parse(CHAT | {"temperature": 0.9, "stop": ["b", "c"], "stop_token_ids": [2]}).config(
        defaults
    )
    assert (config.temperature, config.top_k) == (0.9, 3)
    assert config.stop == ("a", "b", "c")
    assert config.stop_tokens == {1, 2}


def test_biases_have_token_ids_as_string_keys() -> None:
    config = ChatRequest.parse(CHAT | {"logit_bias": {"5": -100, "12": 1.5}}).config(GenerationConfig())
    assert config.logit_bias == {5: -100.0, 12: 1.5}


@pytest.mark.parametrize("key", ["", "a", "-1", "1.0", " 1", "٣", "9" * 30, "1_0"])
def test_a_bias_key_that_is_no_token_id_is_refused(key: str) -> None:
    with pytest.raises(InvalidValue, match="logit_bias"):
        ChatRequest.parse(CHAT | {"logit_bias": {key: 1}})


def test_bad_words_are_texts_or_token_ids() -> None:
    request = ChatRequest.parse(CHAT | {"bad_words": ["no", [1, 2]]})
    assert request.config(GenerationConfig()).bad_words == ((1, 2),)
    assert request.words() == ("no",)


def test_a_seed_of_minus_one_is_none_at_all() -> None:
    """Clients of llama-server send it for no seed; those of Ollama have it among their options."""
    seeded = GenerationConfig(seed=7)
    for parse, body in ((ChatRequest.parse, CHAT), (CompletionRequest.parse, COMPLETION)):
        assert parse(body | {"seed": -1}).config(seeded) == seeded
    ollama = {"model": "demo", "prompt": "Hi", "options": {"seed": -1}}
    assert OllamaGenerate.parse(ollama).config(seeded) == seeded
    with pytest.raises(InvalidGenerationConfig):
        OllamaGenerate.parse(ollama | {"options": {"seed": -2}}).config(seeded)


def test_two_names_of_one_parameter_must_agree() -> None:
    same = CHAT | {"max_tokens": 5, "max_completion_tokens": 5}
    assert ChatRequest.parse(same).config(GenerationConfig()).max_tokens == 5
    with pytest.raises(InvalidValue, match="'max_tokens' and 'max_completion_tokens'"):
        ChatRequest.parse(same | {"max_tokens": 6})


@pytest.mark.parametrize("n", [0, -1])
def test_there_is_at_least_one_choice(n: int) -> None:
    with pytest.raises(InvalidValue, match="'n'"):
        ChatRequest.parse(CHAT | {"n": n})


def test_stream_options_need_a_stream() -> None:
    with pytest.raises(InvalidValue, match="stream_options"):
        ChatRequest.parse(CHAT | {"stream_options": {"include_usage": True}})
    assert ChatRequest.parse(
        CHAT | {"stream": True, "stream_options": {"include_usage": True}}
    ).has_usage_chunk
    with pytest.raises(UnknownParameter, match=r"stream_options\.usage"):
        ChatRequest.parse(CHAT | {"stream": True, "stream_options": {"usage": True}})


@pytest.mark.parametrize(
    "harmless",
    [
        {"user": "me"},
        {"metadata": {"a": "b"}},
        {"store": True},
        {"service_tier": "auto"},
        {"safety_identifier": "x"},
        {"prompt_cache_key": "x"},
        {"cache_prompt": False},
        {"stream": False},
        {"n": 1},
    ],
    ids=str,
)
def test_what_cannot_change_the_text_is_accepted_everywhere(harmless: dict[str, object]) -> None:
    assert ChatRequest.parse(CHAT | harmless).config(GenerationConfig()) == GenerationConfig()
    assert CompletionRequest.parse(COMPLETION | harmless).config(GenerationConfig()) == GenerationConfig()


def test_a_missing_model_is_named() -> None:
    with pytest.raises(RequestError, match="'model'") as failure:
        ChatRequest.parse({"messages": CHAT["messages"]})
    assert failure.value.param == "model"


def test_a_refused_feature_is_told_before_the_unknown() -> None:
    with pytest.raises(UnsupportedParameter, match="'functions'"):
        ChatRequest.parse(CHAT | {"functions": [{"name": "f"}], "unknown": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"tool_choice": 3},
            "Invalid value for 'tool_choice': expected 'none', 'auto' or 'required'.",
        ),
        ({"tool_choice": {}}, "Missing required parameter: 'tool_choice.type'."),
        ({"tool_choice": {"a": 1}}, "Unknown parameter: 'tool_choice.a'."),
        ({"n": 0}, "Invalid value for 'n': expected 1 or more."),
        ({"bad_words": ["a"] * 1025}, "Invalid value for 'bad_words': it may have at most 1024 entries."),
        ({"Unknown": 1}, "Unknown parameter: 'Unknown'."),
        (
            {"reasoning_effort": 3},
            "Invalid value for 'reasoning_effort': "
            "expected 'none', 'minimal', 'low', 'medium', 'high' or 'xhigh'.",
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_pydantic_finds_is_told_in_own_words(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate(CHAT | change)
    assert request_error(caught.value).args[0] == message
