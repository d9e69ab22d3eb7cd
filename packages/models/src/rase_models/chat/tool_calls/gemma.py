"""Gemma 4 and FunctionGemma: `call:name{key:value}` with a marker for quotes."""

import json
import re
from collections.abc import Mapping, Sequence

from rase_models.chat.tool_calls.call_format import Call, CallFormat, MalformedCall
from rase_models.chat.tool_calls.grammar import Json, Symbol, Text
from rase_models.chat.tool_calls.quotes import QuotesBesideMarks
from rase_models.chat.tool_calls.tool import Tool, Tools
from rase_models.chat.tool_calls.typed_arguments import (
    is_text,
    listed,
    properties_of,
    required_of,
    text_until,
    typed_arguments,
)

_HEAD = re.compile(r"\s*call:\s*([^\s{]+)\s*(?=\{)")
_PLAIN = re.compile(r"[^,{}\[\]]+")
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
_DEEPEST = 64


class _Values:
    """The values of one call, read from left to right."""

    def __init__(self, text: str, quote: str) -> None:
        self._text, self._quote, self._at = text, quote, 0

    def arguments(self) -> tuple[str, Mapping[str, object]]:
        """Return the name and the arguments."""
        head = _HEAD.match(self._text)
        if head is None:
            raise MalformedCall(self._text)
        self._at = head.end()
        arguments = self._mapping(0)
        if self._text[self._at :].strip():
            raise MalformedCall(self._text)
        return head[1], arguments

    def _value(self, depth: int) -> object:
        if depth > _DEEPEST:
            raise MalformedCall(self._text)
        if self._takes(self._quote):
            return self._until(self._quote)
        if self._is_next('"'):
            return self._json_text()
        if self._is_next("{"):
            return self._mapping(depth)
        return self._list(depth) if self._takes("[") else self._plain()

    def _mapping(self, depth: int) -> dict[str, object]:
        self._expect("{")
        found: dict[str, object] = {}
        while not self._takes("}"):
            key = self._key()
            found[key] = self._value(depth + 1)
            self._takes(",")
        return found

    def _key(self) -> str:
        if self._is_next('"'):
            key = self._json_text()
        elif self._takes(self._quote):
            key = self._until(self._quote)
        else:
            return self._until(":").strip()
        self._expect(":")
        return key

    def _json_text(self) -> str:
        """Read a text in JSON, as objects and lists may have them."""
        try:
            text, self._at = _DECODER.raw_decode(self._text, self._at)
        except ValueError as error:
            raise MalformedCall(self._text) from error
        return str(text)

    def _list(self, depth: int) -> list[object]:
        found: list[object] = []
        while not self._takes("]"):
            found.append(self._value(depth + 1))
            self._takes(",")
        return found

    def _plain(self) -> object:
        found = _PLAIN.match(self._text, self._at)
        if found is None:
            raise MalformedCall(self._text)
        self._at = found.end()
        return typed_arguments([("", found[0].strip())], None)[""]

    def _is_next(self, text: str) -> bool:
        """Whether a text comes next, behind white space, which is skipped."""
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
        return self._text.startswith(text, self._at)

    def _takes(self, text: str) -> bool:
        is_there = self._is_next(text)
        self._at += len(text) if is_there else 0
        return is_there

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise MalformedCall(self._text)

    def _until(self, text: str) -> str:
        end = self._text.find(text, self._at)
        if end < 0:
            raise MalformedCall(self._text)
        found, self._at = self._text[self._at : end], end + len(text)
        return found


def _format(name: str, begin: str, end: str, quote: str) -> CallFormat:
    ends = (quote, end)

    def parse(text: str, tools: Tools) -> Sequence[Call]:
        return [Call(*_Values(text, quote).arguments())]

    def argument(key: str, schema: Mapping[str, object]) -> list[Symbol]:
        if is_text(schema):
            return [Text(f"{key}:"), Text(quote), *text_until(schema, quote, ends)]
        return [Text(f"{key}:"), Json(schema)]

    def write(tool: Tool) -> Sequence[Symbol]:
        arguments = {key: argument(key, schema) for key, schema in properties_of(tool).items()}
        return [Text(f"call:{tool.name}{{"), *listed(arguments, required_of(tool), ","), Text("}")]

    return CallFormat(
        name=name,
        begin=begin,
        end=end,
        parse=parse,
        write=write,
        inner=(quote,),
        is_apart=True,
        ends=ends,
        keys=re.compile(r'[^\s":}](?:[^:]*[^\s:])?'),
        open_text=lambda: QuotesBesideMarks(quote),
    )


GEMMA = _format("gemma", "<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA = _format("function-gemma", "<start_function_call>", "<end_function_call>", "<escape>")
