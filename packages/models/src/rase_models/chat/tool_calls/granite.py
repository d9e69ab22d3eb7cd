"""Granite 3: a list of objects behind a tag, up to the end of the answer."""

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.growth import OBJECTS
from rase_models.chat.tool_calls.json_calls import parse_json_calls, tell_json_call, write_json_call

GRANITE = CallFormat(
    name="granite",
    begin="<|tool_call|>",
    end="",
    parse=parse_json_calls,
    write=write_json_call,
    is_list=True,
    growth=OBJECTS,
    tell=tell_json_call,
)
