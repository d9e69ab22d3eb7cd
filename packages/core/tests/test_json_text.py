"""JSON from outside: what is read, and how what is not is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.json_text import (
    NestedTooDeeply,
    NotJson,
    NumberTooLarge,
    json_words,
    parse_json,
    unique_keys,
    whole_text,
)

FAULTS: list[tuple[str | bytes, str]] = [
    ("", "a value is expected, at line 1, column 1"),
    ('{"a":\n }', "a value is expected, at line 2, column 2"),
    ("{1}", "a key in double quotes is expected, at line 1, column 2"),
    ('{"a" 1}', "':' is expected, at line 1, column 6"),
    ('{"a": 1 "b"}', "',' or an end is expected, at line 1, column 9"),
    ('"abc', "the text that begins here has no end, at line 1, column 1"),
    ('"a\nb"', "a control character stands in a text"),
    ('"\\q"', "no such escape, at line 1, column 2"),
    ('"\\u12"', "four hexadecimal digits are expected"),
    ("1 2", "the value has ended, and there is more, at line 1, column 3"),
    ("\ufeff1", "it begins with a byte order mark"),
    (b"\xff", "it is not UTF-8 at byte 0"),
    ("[NaN]", "NaN is not a number that JSON has"),
    ("-Infinity", "-Infinity is not a number that JSON has"),
    ("1e999", "a number is too large: 1e999"),
    ("9" * 5000, "a whole number has more than 4300 digits"),
    ("[" * 100_000, "it is nested too deeply"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS, ids=lambda value: repr(value)[:30])
def test_a_fault_is_told_with_its_place_in_own_words(text: str | bytes, words: str) -> None:
    with pytest.raises(NotJson) as caught:
        parse_json(text)
    assert words in str(caught.value)
    for foreign in ("Expecting", "sys.", "set_int_max", "utf-8-sig", "char "):
        assert foreign not in str(caught.value)


def test_faults_that_are_no_matter_of_grammar_have_classes_of_their_own() -> None:
    for text, kind in (
        ("9" * 5000, NumberTooLarge),
        ("-1e999", NumberTooLarge),
        ("[" * 100_000, NestedTooDeeply),
    ):
        with pytest.raises(kind):
            parse_json(text)


def test_objects_can_be_made_by_the_caller_whose_errors_stay_its_own() -> None:
    assert parse_json('{"a": 1}', list) == [("a", 1)]

    class Refused(ValueError):
        pass

    def refuse(pairs: object) -> None:
        raise Refused

    with pytest.raises(Refused):
        parse_json("{}", refuse)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.floats(-1e9, 1e9), st.lists))
def test_what_json_writes_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        parse_json(text)
    except NotJson as error:
        assert str(error)


def test_a_value_is_told_as_json_and_what_json_cannot_write_as_python() -> None:
    assert json_words({"é": [True, None]}) == '{"é": [true, null]}'
    assert json_words({1, 2}) == "{1, 2}"
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert json_words(nested).startswith("[[[")
    nested.append(nested)
    assert json_words(nested).startswith("[[[")


def test_a_key_that_comes_twice_is_refused() -> None:
    assert parse_json('{"a": {"a": 1}}', unique_keys) == {"a": {"a": 1}}
    for text in ('{"a": 1, "a": 1}', '[{"b": {"a": 1, "\\u0061": 2}}]'):
        with pytest.raises(NotJson, match="an object has the same key twice"):
            parse_json(text, unique_keys)


def test_half_of_a_surrogate_pair_is_refused() -> None:
    assert whole_text(parse_json('["\\ud83d\\ude00"]')) == ["\U0001f600"]
    for text in ('"\\ud800"', '[{"a": "x\\ude00"}]', '{"\\ud83d": 1}'):
        with pytest.raises(NotJson, match=r"a text has the lone surrogate '\\ud"):
            whole_text(parse_json(text))
