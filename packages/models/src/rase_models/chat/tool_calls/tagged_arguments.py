"""Calls with a tag around each argument: Qwen3-Coder and Seed, and GLM."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class _Tags:
    """What stands around the arguments of a call, and around the key and the value of each.

    `ends` are what ends a value or the call.
    """

    head: str
    tail: str
    key: str
    value: str
    end: str
    ends: tuple[str, ...]

    def write(self, tool: Tool) -> Sequence[Symbol]:
        """Return what a call looks like: its arguments in the order of the schema."""
        return Text(self.head % tool.name), *self._arguments(tool), Text(self.tail)

    def _arguments(self, tool: Tool) -> Iterator[Symbol]:
        required = required_of(tool)
        for key, schema in properties_of(tool).items():
            may_lack = key not in required
            yield Lark("(" if may_lack else "")
            yield Text(self.key % key + self.value)
            yield from self._written(schema)
            yield Lark(")?" if may_lack else "")

    def _written(self, schema: Mapping[str, object]) -> Sequence[Symbol]:
        is_said = is_text(schema)
        return text_until(schema, self.end, self.ends) if is_said else (Json(schema), Text(self.end))


_CODER = _Tags(
    "\n<function=%s>\n",
    "</function>\n",
    "<parameter=%s>",
    "\n",
    "\n</parameter>\n",
    ("</parameter>", "</tool_call>"),
)
_SEED = replace(_CODER, value="", end="</parameter>\n", ends=("</parameter>", "</seed:tool_call>"))
_GLM = _Tags(
    "%s\n",
    "",
    "<arg_key>%s</arg_key>\n",
    "<arg_value>",
    "</arg_value>\n",
    ("</arg_value>", "</tool_call>"),
)

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>")
_NAME = re.compile(r"\s*([^\s<]+)")
_KEY = r"<arg_key>([^<]*(?:<(?!/arg_key>)[^<]*)*)</arg_key>"

_CODER_TAGS = ArgumentTags(re.compile(r"\s*<parameter=([^>\n]+)>"), "</parameter>", own_lines=True)
_SEED_TAGS = replace(_CODER_TAGS, own_lines=False)
_GLM_TAGS = ArgumentTags(re.compile(rf"\s*{_KEY}\s*<arg_value>"), "</arg_value>")
_LINE_KEYS = re.compile(r"[^\s>](?:[^>\n]*[^\s>])?")
_ANY_KEYS = re.compile(r"\S(?:(?!</arg_key>)(?s:.)*\S)?")
_CODER_GROWTH = Growth(_FUNCTION, _CODER_TAGS.reader)
_SEED_GROWTH = Growth(_FUNCTION, _SEED_TAGS.reader)
_GLM_GROWTH = Growth(re.compile(r"\s*([^\s<]+)\s*(?=<)"), _GLM_TAGS.reader)


def _parse_coder(text: str, tools: Tools) -> Sequence[Call]:
    return [_call(_FUNCTION, _CODER_TAGS, text.rstrip().removesuffix("</function>"), tools)]


def _parse_seed(text: str, tools: Tools) -> Sequence[Call]:
    return [_call(_FUNCTION, _SEED_TAGS, text.rstrip().removesuffix("</function>"), tools)]


def _parse_glm(text: str, tools: Tools) -> Sequence[Call]:
    return [_call(_NAME, _GLM_TAGS, text, tools)]


def _call(head: "re.Pattern[str]", tags: ArgumentTags, text: str, tools: Tools) -> Call:
    found = head.match(text)
    if found is None:
        raise MalformedCall(text)
    tool, values = tools.get(found[1]), text[found.end() :]
    pairs = [(opening[1].strip(), value) for opening, value in between_tags(tags, values, tool)]
    return Call(found[1], typed_arguments(pairs, tool))


QWEN_CODER = CallFormat(
    name="qwen-coder",
    begin="<tool_call>",
    end="</tool_call>",
    parse=_parse_coder,
    write=_CODER.write,
    is_apart=True,
    is_open=True,
    ends=_CODER.ends,
    keys=_LINE_KEYS,
    growth=_CODER_GROWTH,
)

SEED = CallFormat(
    name="seed",
    begin="<seed:tool_call>",
    end="</seed:tool_call>",
    parse=_parse_seed,
    write=_SEED.write,
    is_apart=True,
    is_open=True,
    ends=_SEED.ends,
    keys=_LINE_KEYS,
    growth=_SEED_GROWTH,
)

GLM = CallFormat(
    name="glm",
    begin="<tool_call>",
    end="</tool_call>",
    parse=_parse_glm,
    write=_GLM.write,
    is_apart=True,
    is_open=True,
    ends=_GLM.ends,
    keys=_ANY_KEYS,
    growth=_GLM_GROWTH,
)
