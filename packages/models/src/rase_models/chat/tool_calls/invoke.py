"""MiniMax M2, and DeepSeek 3.2 and 4: a tag that invokes a function, with one for each argument."""

import json
import re
from collections.abc import Mapping, Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Lark, Symbol, Text
from rase_models.chat.tool_calls.growth import ArgumentTags, Growth
from rase_models.chat.tool_calls.tool import Tool, Tools
from rase_models.chat.tool_calls.typed_arguments import (
    is_text,
    properties_of,
    required_of,
    text_until,
    typed_arguments,
)

_HEAD = re.compile(r'\s*([^">]+)">(.*)', re.DOTALL)
_GROWING_HEAD = re.compile(r'\s*([^">]+)">')


def _format(name: str, mark: str, section: str, *, says_text: bool) -> CallFormat:
    """Return the format with a mark in every tag; where it `says_text`, arguments tell whether they are."""
    end = f"</{mark}parameter>\n"
    pattern = re.compile(
        rf'<{mark}parameter name="([^"]+)"(?: string="(true|false)")?>(.*?)</{mark}parameter>', re.DOTALL
    )

    def parse(text: str, tools: Tools) -> Sequence[Call]:
        head = _HEAD.fullmatch(text)
        if head is None or pattern.sub("", head[2]).strip():
            raise MalformedCall(text)
        found = pattern.findall(head[2])
        typed = typed_arguments([(key, value) for key, _, value in found], tools.get(head[1]))
        texts = {key: value for key, is_said, value in found if is_said == "true"}
        return [Call(head[1], {**typed, **texts})]

    def argument(key: str, schema: Mapping[str, object]) -> list[Symbol]:
        said = f" string={json.dumps(str(is_text(schema)).lower())}" if says_text else ""
        opening = Text(f'<{mark}parameter name="{key}"{said}>')
        return [opening, *(text_until(schema, end) if is_text(schema) else (Json(schema), Text(end)))]

    def write(tool: Tool) -> Sequence[Symbol]:
        symbols: list[Symbol] = [Text(f'{tool.name}">\n')]
        for key, schema in properties_of(tool).items():
            may_lack = key not in required_of(tool)
            symbols += [
                Lark("(" if may_lack else ""),
                *argument(key, schema),
                Lark(")?" if may_lack else ""),
            ]
        return symbols

    opening = re.compile(rf'\s*<{mark}parameter name="([^"]+)"(?: string="(true|false)")?>')
    return CallFormat(
        name=name,
        begin=f'<{mark}invoke name="',
        end=f"</{mark}invoke>",
        parse=parse,
        write=write,
        is_apart=True,
        is_open=True,
        opening=f"<{section}>",
        closing=f"</{section}>",
        inner=(mark,) if mark else (),
        growth=Growth(_GROWING_HEAD, ArgumentTags(opening, end.strip()).reader),
    )


MINIMAX = _format("minimax", "", "minimax:tool_call", says_text=False)
DEEPSEEK_32 = _format("deepseek-3.2", "｜DSML｜", "｜DSML｜function_calls", says_text=True)
DEEPSEEK_4 = _format("deepseek-4", "｜DSML｜", "｜DSML｜tool_calls", says_text=True)
