"""Numbers of schemas: what is admitted is within them exactly, and what is refused has none."""

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import UnenforceableFormat
from rase_models.constraints import ResponseFormat
from rase_models.constraints.reasons import UNSATISFIABLE
from rase_models.testing_schemas import SchemaJudge

Schema = dict[str, Any]

JUDGE = SchemaJudge()

_LIMIT = (
    st.decimals(-20, 20, places=3).map(float) | st.decimals(-1, 1, places=2).map(float) | st.integers(-30, 30)
)
_STEP = st.sampled_from((0.1, 0.01, 0.25, 0.5, 0.07, 0.3, 1.5, 2.5, 1, 2, 7)) | st.decimals(
    "0.001", 3, places=3
).map(float)
_KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "minimum": _LIMIT,
        "maximum": _LIMIT,
        "exclusiveMinimum": _LIMIT,
        "exclusiveMaximum": _LIMIT,
        "multipleOf": _STEP,
    },
)
_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "allOf": st.lists(_KEYWORDS, min_size=1, max_size=2),
        "anyOf": st.lists(_KEYWORDS, min_size=1, max_size=2),
        "enum": st.lists(_LIMIT, min_size=1, max_size=4),
    },
)


@st.composite
def number_schemas(draw: st.DrawFn) -> Schema:
    kind = draw(st.sampled_from(("number", "integer")))
    return {"type": kind, **draw(_KEYWORDS), **draw(_PARTS)}


HOLDS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda value, step: (value / step).denominator == 1,
}


def exact(value: Any) -> Fraction:
    return Fraction(str(value))


def is_within(value: Fraction, schema: Schema) -> bool:
    """Whether a number satisfies a schema, by the definition of each keyword."""
    return (
        (schema.get("type") != "integer" or value.denominator == 1)
        and all(holds(value, exact(schema[key])) for key, holds in HOLDS.items() if key in schema)
        and ("enum" not in schema or value in map(exact, schema["enum"]))
        and all(is_within(value, part) for part in schema.get("allOf", ()))
        and ("anyOf" not in schema or any(is_within(value, part) for part in schema["anyOf"]))
    )


def near(schema: Schema) -> set[Fraction]:
    """Return the multiples around each limit, and the limits."""
    parts = [schema, *schema.get("allOf", ()), *schema.get("anyOf", ())]
    given = [exact(part[key]) for part in parts for key in HOLDS if key in part and key != "multipleOf"]
    limits = [Fraction(0), *given, *map(exact, schema.get("enum", ()))]
    steps = [Fraction(1, 100), *(exact(part["multipleOf"]) for part in parts if "multipleOf" in part)]
    around = {(limit // step + i) * step for limit in limits for step in steps for i in (-1, 0, 1, 2)}
    return {value for value in around | set(limits) if 10**6 % value.denominator == 0}


def texts_of(value: Fraction) -> set[str]:
    """Return a number with as many digits behind its point as it needs, and with more."""
    texts = set()
    for places in range(7):
        scaled = value * 10**places
        if scaled.denominator == 1:
            digits = str(abs(int(scaled))).rjust(places + 1, "0")
            point = len(digits) - places
            texts.add("-" * (value < 0) + digits[:point] + "." * (places > 0) + digits[point:])
    return texts | ({"-0", "-0.0"} if value == 0 else set())


@settings(max_examples=100, deadline=None)
@given(number_schemas())
def test_numbers_are_admitted_if_and_only_if_they_satisfy_the_schema(schema: Schema) -> None:
    form, values = ResponseFormat.json_schema(schema), near(schema)
    within = {value for value in values if is_within(value, schema)}
    try:
        admitted = {
            value for value in values if any(JUDGE.admits_text(form, text) for text in texts_of(value))
        }
    except UnenforceableFormat as error:
        assert not within or UNSATISFIABLE not in error.reason
    else:
        assert admitted == within


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {"type": "number", "multipleOf": 0.01, "minimum": 0.005, "maximum": 0.0149},
            ["0.01"],
            ["0", "0.005"],
        ),
        ({"multipleOf": 0.1, "minimum": -0.35, "maximum": -0.25}, ["-0.3", "true"], ["-0.35", "0.3"]),
        (
            {"type": "number", "multipleOf": 0.07, "maximum": 1},
            ["0.14", "-0.07", "0.7"],
            ["0.01", "1", "0.1"],
        ),
        ({"type": "integer", "multipleOf": 1.5, "exclusiveMinimum": 3}, ["6", "9"], ["3", "4", "7"]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, ["0.1", "0.5"], ["0", "-0", "0.6"]),
        ({"type": "number", "exclusiveMinimum": 3, "maximum": 3.5}, ["3.1"], ["3", "3.0"]),
        ({"type": "number", "exclusiveMaximum": 0, "minimum": -0.5}, ["-0.1"], ["0", "-0", "-0.0"]),
        ({"enum": [0.3, 0.35, "a"], "multipleOf": 0.1}, ["0.3", '"a"'], ["0.35"]),
        ({"const": 0.3, "multipleOf": 0.1}, ["0.3"], ["0.2"]),
        ({"allOf": [{"multipleOf": 0.1}, {"minimum": 0.25, "maximum": 0.35}]}, ["0.3"], ["0.25", "0.2"]),
        ({"$ref": "#/$defs/a", "maximum": 0.35, "$defs": {"a": {"multipleOf": 0.1}}}, ["0.3"], ["0.35"]),
        ({"multipleOf": 0.1, "anyOf": [{"const": 0.25}, {"minimum": 0.65}]}, ["0.7"], ["0.25", "0.65"]),
        ({"type": "integer", "minimum": 9007199254740993}, ["9007199254740994"], ["9007199254740992"]),
        (
            {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
            ["1", "-1", "9223372036854775807", "-9223372036854774784"],
            ["9223372036854775808", "-9223372036854775809", "1.5"],
        ),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, ["9223372036854775807"], ["-1"]),
        ({"type": "number", "minimum": -1.7e308, "maximum": 1.797e308}, ["1.5", "-7"], ["true"]),
        ({"type": "number", "minimum": -1e22, "maximum": 2.5}, ["2.5", "-3"], ["2.6"]),
        ({"type": "number", "maximum": 1e300}, ["2.5", "-3"], []),
        ({"multipleOf": 0.5, "minimum": -1e22, "maximum": 1e22}, ["2.5", "-3"], ["2.6"]),
        ({"const": 2**63 - 1}, ["9223372036854775807"], ["9223372036854775808"]),
        (
            {"type": "number", "multipleOf": 0.25},
            ["12.5", "12.50", "0.5", "-0.5", "12", "-0.25", "0"],
            ["0.1", "12.4", "12.55"],
        ),
        ({"multipleOf": 0.125}, ["0.5", "0.25", "-0.125", "3", "1.750"], ["0.2", "0.15", "0.120"]),
        ({"multipleOf": 0.35}, ["0.7", "-1.4", "0.35", "1.05"], ["0.5", "0.3", "0.14"]),
        ({"properties": {"a": {"multipleOf": 5}}}, ['{"a":5}', "[]"], ['{"a":3}']),
    ],
)
def test_numbers_are_reckoned_with_in_decimals(schema: Schema, valid: list[str], invalid: list[str]) -> None:
    form = ResponseFormat.json_schema(schema)
    assert [text for text in valid if not JUDGE.admits_text(form, text)] == []
    assert [text for text in invalid if JUDGE.admits_text(form, text)] == []


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        (
            {"type": "number", "multipleOf": 7, "minimum": 8, "maximum": 13},
            "'multipleOf' at #: nothing satis",
        ),
        ({"items": {"enum": [9007199254740993]}}, "'enum' at #/items: .*too many digits"),
        ({"const": {"a": [9007199254740993]}}, "'const' at #: .*too many digits"),
        ({"const": -(2**63 - 1)}, "'const' at #: .*too many digits"),
        ({"const": 2**63}, "'const' at #: .*too many digits"),
        ({"multipleOf": 2.251}, "multiples of 2.251 cannot be told exactly"),
    ],
)
def test_numbers_that_are_not_there_or_not_told_are_refused_with_the_reason(
    schema: Schema, word: str
) -> None:
    with pytest.raises(UnenforceableFormat, match=word):
        JUDGE.admits_text(ResponseFormat.json_schema(schema), "0")


@given(st.floats(-1e15, 1e15, allow_subnormal=False).filter(lambda value: "e" not in repr(value)))
@settings(deadline=None, max_examples=300)
def test_a_number_of_many_digits_is_not_taken_for_its_neighbour(value: float) -> None:
    for end in (-math.inf, math.inf):
        with suppress(UnenforceableFormat):
            form = ResponseFormat.json_schema({"enum": [value]})
            assert not JUDGE.admits(form, math.nextafter(value, end))
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        with suppress(UnenforceableFormat):
            assert not JUDGE.admits(ResponseFormat.json_schema({"type": "number", key: value}), value)


@pytest.mark.parametrize("value", [0.30000000000000004, 12345.678901234567, 1 / 3, 0.0001])
def test_most_numbers_of_many_digits_are_told(value: float) -> None:
    assert JUDGE.admits(ResponseFormat.json_schema({"enum": [value]}), value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": [123456789.12345679]}, "'enum' at #: .*too many digits"),
        ({"type": "number", "exclusiveMaximum": 123456789.12345679}, "limits have too many digits"),
        ({"type": "number", "exclusiveMinimum": 1000000000000000.5}, "limits have too many digits"),
        ({"type": "number", "multipleOf": 3e-17}, "multiples of 3e-17 cannot be told exactly"),
        ({"type": "number", "multipleOf": 3e-9}, "multiples of 3e-09 cannot be told exactly"),
        ({"type": "number", "multipleOf": 10**400}, "multiples of numbers beyond 4294967295"),
        (
            {"allOf": [{"multipleOf": 10**4000 + i} for i in (1, 3)], "type": "integer"},
            "multiples of numbers",
        ),
        ({"type": "integer", "multipleOf": 10**4200, "maximum": 10**4200, "minimum": 1}, "too many digits"),
    ],
)
def test_numbers_that_would_become_others_are_refused(schema: Schema, words: str) -> None:
    with pytest.raises(UnenforceableFormat, match=words) as caught:
        JUDGE.admits_text(ResponseFormat.json_schema(schema), "1")
    assert len(caught.value.reason) < 300


def decimals(value: Fraction, places: int) -> str:
    digits = str(int(value * 10**places)).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


@pytest.mark.parametrize("step", [1e-9, 3e-8, 0.00012, 4.29])
def test_small_steps_are_exact(step: float) -> None:
    form = ResponseFormat.json_schema({"type": "number", "multipleOf": step})
    places = next(i for i in range(20) if 10**i % exact(step).denominator == 0)
    for number in (0, 1, 3, 7, 4_294_967_295, 10**12 + 1):
        text = decimals(number * exact(step), places)
        assert JUDGE.admits_text(form, text)
        near = decimals(number * exact(step) + Fraction(1, 10**places), places)
        assert JUDGE.admits_text(form, near) is ((exact(near) / exact(step)).denominator == 1)
