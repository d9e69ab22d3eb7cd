"""Calls written as JSON, which most families do, with different keys and around it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from rase_models.chat.tool_calls.call_format import Call, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Symbol
from rase_models.chat.tool_calls.tool import Tool, Tools

_BETWEEN = re.compile(r"[\s,;]*")
_DECODER = json.JSONDecoder()


def parse_json_calls(text: str, tools: Tools) -> list[Call]:
    """Return the calls of a text that has an object for each, or lists of them."""
    calls = [_call(value) for value in _objects(text)]
    if not calls:
        raise MalformedCall(text)
    return calls


def write_json_call(tool: Tool, arguments: str = "arguments") -> Sequence[Symbol]:
    """Return what the object of a call looks like, by the key that its arguments have."""
    properties = {"name": {"const": tool.name}, arguments: tool.schema_apart}
    schema: Mapping[str, object] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return (Json(schema),)


def tell_json_call(call: Call) -> str:
    """Return the object of a call of the history."""
    return json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)


def json_object(text: str) -> Mapping[str, object]:
    """Return the object that a text is; raises MalformedCall."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise MalformedCall(text) from error
    if not isinstance(value, dict):
        raise MalformedCall(text)
    return value


def dumped(arguments: Mapping[str, object]) -> str:
    """Return arguments as JSON; raises MalformedCall for numbers and characters that JSON does not have."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError) as error:
        raise MalformedCall(str(error)) from error
    return text


def _objects(text: str) -> Iterator[object]:
    at = _skip(text, 0)
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise MalformedCall(text) from error
        yield from value if isinstance(value, list) else (value,)
        at = _skip(text, at)


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found is not None else at


def _call(value: object) -> Call:
    if not isinstance(value, dict):
        raise MalformedCall(str(value))
    value = value.get("function", value) if isinstance(value.get("function"), dict) else value
    name = value.get("name", value.get("tool_name"))
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        arguments = json_object(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        raise MalformedCall(str(value))
    return Call(name, arguments or {})
