"""JSON that a person or a client wrote, read strictly, with faults in words that say where they are."""

import json
import math
import reprlib
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "Expecting value": "a value is expected",
        "Expecting property name enclosed in double quotes": "a key in double quotes is expected",
        "Expecting ':' delimiter": "':' is expected",
        "Expecting ',' delimiter": "',' or an end is expected",
        "Unterminated string starting at": "the text that begins here has no end",
        "Invalid control character at": "a control character stands in a text; write it as \\u and its code",
        "Invalid \\escape": "no such escape",
        "Invalid \\uXXXX escape": "four hexadecimal digits are expected after \\u",
        "Extra data": "the value has ended, and there is more",
        "Unexpected UTF-8 BOM (decode using utf-8-sig)": "it begins with a byte order mark",
        "Illegal trailing comma before end of object": "a comma stands before the end of an object",
        "Illegal trailing comma before end of array": "a comma stands before the end of a list",
    }
)
"""What json says is wrong at a place, without what it adds, and what is said here."""

PairsHook = Callable[[list[tuple[str, Any]]], object]


class NotJson(ValueError):
    """A text is no JSON: what is wrong with it, and where."""


class NumberTooLarge(NotJson):
    """A number has more digits than are read, or is beyond those that a float64 holds."""


class NestedTooDeeply(NotJson):
    """Lists and objects are within each other, more than can be read."""


def json_words(value: object) -> str:
    """Return a value as JSON writes it, in one line; what JSON cannot write, in short as Python does."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return reprlib.repr(value)


def parse_json(text: str | bytes, pairs_hook: PairsHook | None = None) -> object:
    """Return the value that a JSON text is; bytes are UTF-8.

    NaN and infinities are none, and numbers are finite. `pairs_hook` makes the objects.

    Raises NotJson, and what `pairs_hook` raises.
    """
    try:
        whole = text if isinstance(text, str) else text.decode()
        value: object = json.loads(
            whole, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=pairs_hook
        )
    except UnicodeDecodeError as error:
        raise NotJson(f"it is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise NotJson(_said(error)) from error
    except RecursionError as error:
        raise NestedTooDeeply("it is nested too deeply") from error
    except NotJson:
        raise
    except ValueError as error:
        if type(error) is not ValueError:  # what the hook raises
            raise
        most = sys.get_int_max_str_digits()
        raise NumberTooLarge(f"a whole number has more than {most} digits") from error
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, as a `pairs_hook`; raises NotJson for a key that comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("an object has the same key twice")
    return found


def whole_text(value: object) -> object:
    """Return a value of JSON; raises NotJson where one of its texts has half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise NotJson(f"a text has the lone surrogate {error.object[error.start]!r}") from error
    return value


def _said(error: json.JSONDecodeError) -> str:
    words = next((own for text, own in _WORDS.items() if error.msg.startswith(text)), "it cannot be read")
    return f"{words}, at line {error.lineno}, column {error.colno}"


def _refuse_constant(name: str) -> float:
    raise NotJson(f"{name} is not a number that JSON has")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NumberTooLarge(f"a number is too large: {digits[:40]}")
    return number
