"""Llama 3.1 to 3.3: an object that is the whole answer, with `parameters` for arguments."""

from rase_models.chat.tool_calls.call_format import CallFormat
from rase_models.chat.tool_calls.growth import OBJECTS
from rase_models.chat.tool_calls.json_calls import parse_json_calls, write_json_call

LLAMA = CallFormat(
    name="llama",
    begin="",
    end="",
    parse=parse_json_calls,
    write=lambda tool: write_json_call(tool, "parameters"),
    starts=("{", "<|python_tag|>"),
    growth=OBJECTS,
)
