"""Hermes, Qwen 2.5 and 3, Granite 4 and many more: an object between tags for each call."""

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.grammar import Text
from rase_models.chat.tool_calls.growth import OBJECTS
from rase_models.chat.tool_calls.json_calls import parse_json_calls, tell_json_call, write_json_call

HERMES = CallFormat(
    name="hermes",
    begin="<tool_call>",
    end="</tool_call>",
    parse=parse_json_calls,
    write=lambda tool: (Text("\n"), *write_json_call(tool), Text("\n")),
    growth=OBJECTS,
    tell=lambda call: f"\n{tell_json_call(call)}\n",
)
