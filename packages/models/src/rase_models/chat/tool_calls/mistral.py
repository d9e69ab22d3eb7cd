"""Mistral: a list of objects behind a marker; since 2025 a name and its arguments behind a marker each."""

from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat
from rase_models.chat.tool_calls.grammar import Json, Symbol, Text
from rase_models.chat.tool_calls.growth import OBJECTS, json_growth
from rase_models.chat.tool_calls.json_calls import json_object, parse_json_calls, write_json_call
from rase_models.chat.tool_calls.tool import Tool, Tools

_CALL, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_ID_LENGTH = 9  # that the templates demand


def _parse(text: str, tools: Tools) -> Sequence[Call]:
    name, marker, arguments = text.partition(_ARGUMENTS)
    if not marker or name.lstrip().startswith("["):
        return parse_json_calls(text, tools)
    return [Call(name.partition(_ID)[0].strip(), json_object(arguments))]


def _write(tool: Tool) -> Sequence[Symbol]:
    return Text(tool.name), Text(_ARGUMENTS), Json(tool.schema)


MISTRAL_LIST = CallFormat(
    name="mistral-list",
    begin=_CALL,
    end="",
    parse=_parse,
    write=write_json_call,
    is_list=True,
    growth=OBJECTS,
    id_length=_ID_LENGTH,
)

MISTRAL = CallFormat(
    name="mistral",
    begin=_CALL,
    end="",
    parse=_parse,
    write=_write,
    inner=(_ID, _ARGUMENTS),
    growth=json_growth(r"\s*([^\s\[]+)\s*(?:\[CALL_ID\][^\[]*)?\[ARGS\]"),
    id_length=_ID_LENGTH,
)
