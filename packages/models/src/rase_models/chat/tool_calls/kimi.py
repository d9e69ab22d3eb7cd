"""Kimi K2: markers around an id that holds the name, and the arguments."""

import re
from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Lark, Symbol, Text
from rase_models.chat.tool_calls.growth import json_growth
from rase_models.chat.tool_calls.json_calls import json_object
from rase_models.chat.tool_calls.tool import Tool, Tools

_ARGUMENTS = "<|tool_call_argument_begin|>"
_COUNT = re.compile(r":\d+$")


def _parse(text: str, tools: Tools) -> Sequence[Call]:
    head, marker, arguments = text.partition(_ARGUMENTS)
    name = _COUNT.sub("", head.strip().removeprefix("functions."))
    if not marker or len(name.split()) != 1:
        raise MalformedCall(text)
    return [Call(name, json_object(arguments))]


def _write(tool: Tool) -> Sequence[Symbol]:
    return Text(f"functions.{tool.name}:"), Lark("/[0-9]{1,2}/"), Text(_ARGUMENTS), Json(tool.schema)


KIMI = CallFormat(
    name="kimi",
    begin="<|tool_call_begin|>",
    end="<|tool_call_end|>",
    parse=_parse,
    write=_write,
    opening="<|tool_calls_section_begin|>",
    closing="<|tool_calls_section_end|>",
    inner=(_ARGUMENTS,),
    growth=json_growth(rf"\s*(?:functions\.)?([^\s<]+?)(?::\d+)?\s*{re.escape(_ARGUMENTS)}"),
)
