"""DeepSeek 3 and R1: markers around the name and the arguments; until 3.1 with more around them."""

from collections.abc import Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Symbol, Text
from rase_models.chat.tool_calls.growth import json_growth
from rase_models.chat.tool_calls.json_calls import json_object
from rase_models.chat.tool_calls.tool import Tool, Tools

_CALLS, _CALL, _SEPARATOR = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
_CALL_END, _CALLS_END = "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"
_FENCE = "```"


def _parse(text: str, tools: Tools) -> Sequence[Call]:
    head, separator, body = text.partition(_SEPARATOR)
    if not separator:
        raise MalformedCall(text)
    return [_fenced(body) or Call(head.strip(), json_object(body))]


def _fenced(body: str) -> Call | None:
    """Return the call of a name before a fence around its arguments."""
    name, _, rest = body.partition(_FENCE)
    arguments, fence, after = rest.rpartition(_FENCE)
    name = name.strip()
    if not fence or after.strip() or "`" in name or "\n" in name:
        return None
    return Call(name, json_object(arguments.removeprefix("json")))


def _write_fenced(tool: Tool) -> Sequence[Symbol]:
    name = Text(f"{tool.name}\n```json\n")
    return Text("function"), Text(_SEPARATOR), name, Json(tool.schema), Text("\n```")


def _write(tool: Tool) -> Sequence[Symbol]:
    return Text(tool.name), Text(_SEPARATOR), Json(tool.schema)


DEEPSEEK = CallFormat(
    name="deepseek",
    begin=_CALL,
    end=_CALL_END,
    parse=_parse,
    write=_write_fenced,
    opening=_CALLS,
    closing=_CALLS_END,
    inner=(_SEPARATOR,),
    growth=json_growth(rf"[^<]*{_SEPARATOR}\s*([^\s`]+)\s*```(?:json)?"),
)

DEEPSEEK_31 = CallFormat(
    name="deepseek-3.1",
    begin=_CALL,
    end=_CALL_END,
    parse=_parse,
    write=_write,
    opening=_CALLS,
    closing=_CALLS_END,
    inner=(_SEPARATOR,),
    growth=json_growth(rf"\s*([^\s<]+)\s*{_SEPARATOR}"),
)
