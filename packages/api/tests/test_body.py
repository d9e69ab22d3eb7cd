import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_api.body import MOST_OBJECTS, parse_object
from rase_api.errors import InvalidJson, InvalidValue
from rase_api.schemas.tools import parsed_arguments

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_an_object_is_read_as_the_standard_library_reads_it(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value).encode()) == value
    assert parse_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_invalid_json(body: bytes) -> None:
    try:
        assert isinstance(parse_object(body), dict)
    except InvalidJson as error:
        assert error.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"{}{}",
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\uDFFF"}',
        b'{"\\ud83d":1}',
        b'{"a":["\\ude00\\ud83d"]}',
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_not_plain_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_object(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":', "The body is not valid JSON: a value is expected, at line 1, column 6."),
        (b'{"a":NaN}', "The body is not valid JSON: NaN is not a number that JSON has."),
        (
            b"\xef\xbb\xbf{}",
            "The body is not valid JSON: it begins with a byte order mark, at line 1, column 1.",
        ),
        (b'{"a":' + b"9" * 5000 + b"}", "The body has a number that is too large."),
        (b"[" * 200_000, "The body is nested too deeply."),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_fault_is_told_in_own_words(body: bytes, words: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_object(body)
    assert caught.value.message == words


def test_arguments_of_a_call_in_the_history_that_are_no_json_are_told_in_own_words() -> None:
    for text, words in (("9" * 5000, "more than 4300 digits"), ("{", "a key in double quotes is expected")):
        with pytest.raises(InvalidValue, match=f"Invalid value for 'x': not valid JSON .*{words}"):
            parsed_arguments(text, "x")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse_object(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_more_objects_than_can_be_checked_in_passing_are_refused() -> None:
    messages = [{"role": "user"}] * (MOST_OBJECTS - 1)
    assert len(parse_object(json.dumps({"messages": messages}).encode())["messages"]) == MOST_OBJECTS - 1  # type: ignore[arg-type]
    with pytest.raises(InvalidJson, match="more than 16384 objects"):
        parse_object(json.dumps({"messages": [*messages, {}]}).encode())
