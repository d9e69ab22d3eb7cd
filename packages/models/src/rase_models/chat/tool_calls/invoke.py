"""MiniMax M2, and DeepSeek 3.2 and 4: a tag that invokes a function, with one for each argument."""

import json
import re
from collections.abc import Mapping, Sequence

from rase_models.chat.tool_calls.between_tags import between_tags
from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Lark, Symbol, Text
from rase_models.chat.tool_calls.growth import Growth
from rase_models.chat.tool_calls.tagged_growth import ArgumentTags
from rase_models.chat.tool_calls.tool import Tool, Tools
from rase_models.chat.tool_calls.typed_arguments import (
    is_text,
    properties_of,
    required_of,
    text_until,
    typed_arguments,
)

_KEYS = re.compile(r'[^\s"](?:[^"]*[^\s"])?')
_HEAD = re.compile(r'\s*([^\s">][^">]*)">')


class _Tags:
    """The tags of a family, with a mark in each; where it `says_text`, arguments tell whether they are."""

    def __init__(self, mark: str, section: str, *, says_text: bool) -> None:
        head = rf'<{mark}parameter name="([^"]+)"(?: string="(true|false)")?>'
        self._mark, self._says_text = mark, says_text
        self._end = f"</{mark}parameter>\n"
        self._arguments = ArgumentTags(re.compile(rf"\s*{head}"), self._end.strip())
        self.ends = (self._end.strip(), f"</{mark}invoke>", f"</{section}>")
        self.growth = Growth(_HEAD, self._arguments.reader)

    def parse(self, text: str, tools: Tools) -> Sequence[Call]:
        """Return the call that is between its tags. Raises MalformedCall."""
        head = _HEAD.match(text)
        if head is None:
            raise MalformedCall(text)
        tool = tools.get(head[1])
        found = list(between_tags(self._arguments, text[head.end() :], tool))
        typed = typed_arguments([(opening[1].strip(), value) for opening, value in found], tool)
        texts = {opening[1].strip(): value for opening, value in found if opening[2] == "true"}
        return [Call(head[1], {**typed, **texts})]

    def write(self, tool: Tool) -> Sequence[Symbol]:
        """Return what a call looks like."""
        symbols: list[Symbol] = [Text(f'{tool.name}">\n')]
        for key, schema in properties_of(tool).items():
            may_lack = key not in required_of(tool)
            before, behind = ("(", ")?") if may_lack else ("", "")
            symbols += [Lark(before), *self._written(key, schema), Lark(behind)]
        return symbols

    def _written(self, key: str, schema: Mapping[str, object]) -> Sequence[Symbol]:
        said = f" string={json.dumps(str(is_text(schema)).lower())}" if self._says_text else ""
        is_said, text = is_text(schema), (Json(schema), Text(self._end))
        value = text_until(schema, self._end, self.ends) if is_said else text
        return Text(f'<{self._mark}parameter name="{key}"{said}>'), *value


def _format(name: str, mark: str, section: str, *, says_text: bool) -> CallFormat:
    tags = _Tags(mark, section, says_text=says_text)
    return CallFormat(
        name=name,
        begin=f'<{mark}invoke name="',
        end=f"</{mark}invoke>",
        parse=tags.parse,
        write=tags.write,
        is_apart=True,
        is_open=True,
        opening=f"<{section}>",
        closing=f"</{section}>",
        inner=(mark,) if mark else (),
        ends=tags.ends,
        keys=_KEYS,
        growth=tags.growth,
    )


MINIMAX = _format("minimax", "", "minimax:tool_call", says_text=False)
DEEPSEEK_32 = _format("deepseek-3.2", "｜DSML｜", "｜DSML｜function_calls", says_text=True)
DEEPSEEK_4 = _format("deepseek-4", "｜DSML｜", "｜DSML｜tool_calls", says_text=True)
