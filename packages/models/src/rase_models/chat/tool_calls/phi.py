"""Phi 4 mini: a list of objects between tags."""

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.growth import OBJECTS
from rase_models.chat.tool_calls.json_calls import parse_json_calls, write_json_call

PHI = CallFormat(
    name="phi",
    begin="<|tool_call|>",
    end="<|/tool_call|>",
    parse=parse_json_calls,
    write=write_json_call,
    is_list=True,
    growth=OBJECTS,
)
