import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidGenerationConfig
from rase_core.sampling import GenerationConfig

FLOATS = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "xtc_probability",
    "xtc_threshold",
)
INTEGERS = ("max_tokens", "top_k", "penalty_last_n", "dry_allowed_length", "dry_penalty_last_n", "seed")


def test_the_defaults_are_those_of_the_field() -> None:
    config = GenerationConfig()
    assert (config.max_tokens, config.temperature, config.top_k, config.top_p) == (256, 0.7, 40, 0.95)
    assert (config.min_p, config.repetition_penalty, config.seed, config.ignore_eos) == (0.05, 1.0, 0, False)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, 10**400, -1e9, [0.5]])
def test_a_number_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidGenerationConfig, match=name) as caught:
        GenerationConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.parameter == name
    assert caught.value.expected.startswith("a number of ")


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [1.0, True, "1", None, -2, 2**64, 10**400, math.nan])
def test_a_whole_number_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidGenerationConfig, match=name) as caught:
        GenerationConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.parameter == name
    assert caught.value.expected.startswith("a whole number of ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop", "abc"),
        ("stop", [""]),
        ("stop", [1]),
        ("stop", ["x" * 4097]),
        ("stop_tokens", "12"),
        ("stop_tokens", [-1]),
        ("stop_tokens", [True]),
        ("stop_tokens", 3),
        ("dry_sequence_breakers", [2**31]),
        ("bad_words", [[]]),
        ("bad_words", [1]),
        ("bad_words", "a"),
        ("bad_words", [[1.5]]),
        ("logit_bias", [1]),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: math.inf}),
        ("logit_bias", {"x": 1.0}),
        ("logit_bias", {"-1": 1.0}),
        ("logit_bias", {"9" * 5000: 1.0}),
        ("logit_bias", {1: "1"}),
        ("ignore_eos", 1),
    ],
)
def test_a_collection_with_a_wrong_entry_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidGenerationConfig) as caught:
        GenerationConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.parameter == name


def test_lists_become_tuples_and_sets_and_whole_numbers_floats() -> None:
    config = GenerationConfig(
        temperature=1,
        stop=["a"],  # type: ignore[arg-type]
        stop_tokens=[1, 2],  # type: ignore[arg-type]
        bad_words=[[1, 2]],  # type: ignore[arg-type]
        logit_bias={"7": -math.inf},  # type: ignore[dict-item]
    )
    assert config.temperature == 1.0 and isinstance(config.temperature, float)
    assert (config.stop, config.stop_tokens) == (("a",), frozenset({1, 2}))
    assert (config.bad_words, config.logit_bias) == (((1, 2),), {7: -math.inf})


def test_a_message_stays_short_whatever_the_value() -> None:
    for value in (10**5000, ["x" * 100] * 100, -(10**5000)):
        with pytest.raises(InvalidGenerationConfig) as caught:
            GenerationConfig(top_k=value)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 250


def test_a_config_does_not_change_with_the_mapping_it_was_made_of() -> None:
    bias = {1: 2.0}
    config = GenerationConfig(logit_bias=bias)
    bias[1] = 3.0
    assert config.logit_bias == {1: 2.0}


def test_a_mapping_replaces_fields_of_a_base() -> None:
    base = GenerationConfig(seed=3, top_k=5)
    config = GenerationConfig.from_mapping({"top_k": 7, "stop": ["x"]}, base)
    assert (config.seed, config.top_k, config.stop) == (3, 7, ("x",))


def test_a_request_adds_stops_and_bad_words_and_replaces_the_rest() -> None:
    own = GenerationConfig(
        stop=("a",), stop_tokens=frozenset({1}), bad_words=((1,),), logit_bias={1: 1.0}, seed=3, top_k=5
    )
    request = {
        "stop": ["b", "a"],
        "stop_tokens": [2],
        "bad_words": [[1], [2]],
        "logit_bias": {"2": 2},
        "seed": 4,
    }
    merged = own.merged(request)
    assert (merged.stop, merged.stop_tokens) == (("a", "b"), frozenset({1, 2}))
    assert (merged.bad_words, merged.logit_bias) == (((1,), (2,)), {2: 2.0})
    assert (merged.seed, merged.top_k) == (4, 5)
    assert own.merged({}) == own


def test_an_unknown_parameter_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidGenerationConfig, match=r"'topk'.*top_k") as caught:
        GenerationConfig.from_mapping({"topk": 7})
    assert (caught.value.parameter, caught.value.value) == ("parameter", "topk")


def test_a_mapping_of_all_fields_makes_the_same_config() -> None:
    config = GenerationConfig(seed=5, stop=("x",), bad_words=((1,),), logit_bias={3: 1.0})
    assert GenerationConfig.from_mapping(config.to_mapping()) == config


NAMES = st.sampled_from((*FLOATS, *INTEGERS, "stop", "logit_bias", "bad_words", "unknown"))
VALUES = (
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers() | st.text(max_size=3))
)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_any_mapping_is_a_config_or_a_named_error(values: dict[str, object]) -> None:
    try:
        GenerationConfig.from_mapping(values)
    except InvalidGenerationConfig as error:
        assert error.parameter == "parameter" or error.parameter in values
