"""Apriel, Nemotron Nano 2 and Command R7B and A: a list of objects between tags of their own."""

from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.grammar import Json, Symbol
from rase_models.chat.tool_calls.growth import OBJECTS
from rase_models.chat.tool_calls.json_calls import parse_json_calls, write_json_call
from rase_models.chat.tool_calls.tool import Tool

APRIEL = CallFormat(
    name="apriel",
    begin="<tool_calls>",
    end="</tool_calls>",
    parse=parse_json_calls,
    write=write_json_call,
    is_list=True,
    growth=OBJECTS,
)

NEMOTRON = CallFormat(
    name="nemotron",
    begin="<TOOLCALL>",
    end="</TOOLCALL>",
    parse=parse_json_calls,
    write=write_json_call,
    is_list=True,
    growth=OBJECTS,
)


def _write_cohere(tool: Tool) -> Sequence[Symbol]:
    identity = {"type": "string", "pattern": "^[0-9]{1,2}$"}
    properties = {
        "tool_call_id": identity,
        "tool_name": {"const": tool.name},
        "parameters": tool.schema_apart,
    }
    return (
        Json(
            {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        ),
    )


COHERE = CallFormat(
    name="cohere",
    begin="<|START_ACTION|>",
    end="<|END_ACTION|>",
    parse=parse_json_calls,
    write=_write_cohere,
    is_list=True,
    growth=OBJECTS,
)
