"""The grammar of answers that must call a tool."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rase_models.constraints.response_format import JSON_WHITESPACE

if TYPE_CHECKING:
    from rase_models.chat.tool_calls.call_format import CallFormat
    from rase_models.chat.tool_calls.tool import Tool


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Json:
    """JSON that a schema describes."""

    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Lark:
    """An expression of llguidance's Lark."""

    text: str


@dataclass(frozen=True, slots=True)
class Until:
    """Any text up to this one, and this one; of at most so many characters."""

    text: str
    most: int | None = None


_GUIDANCE = {"whitespace_pattern": JSON_WHITESPACE}

Symbol = Text | Json | Lark | Until
SpecialId = Callable[[str], int | None]
"""Tells the id of a text that is a token without text of its own."""


class _Rules:
    """The rules of one grammar as it is written."""

    def __init__(self, special: SpecialId) -> None:
        self._special = special
        self._untils: dict[Until, str] = {}

    def term(self, symbol: Symbol) -> str:
        """Return a symbol as Lark writes it."""
        match symbol:
            case Text(text):
                token = self._special(text)
                return _quoted(text) if token is None else f"<[{token}]>"
            case Json(schema):
                return f"%json {json.dumps({**schema, 'x-guidance': _GUIDANCE})}"
            case Until():
                return self._until(symbol)
            case Lark(text):
                return text

    def terms(self, symbols: Sequence[Symbol]) -> str:
        """Return symbols in a row."""
        return " ".join(self.term(symbol) for symbol in symbols)

    def marker(self, text: str) -> list[str]:
        """Return a text, or nothing when it is empty."""
        return [self.term(Text(text))] if text else []

    def lines(self) -> list[str]:
        """Return the rules that the terms need."""
        return [
            f"{name}[suffix={_quoted(until.text)}]: {_any_text(until)}"
            for until, name in self._untils.items()
        ]

    def _until(self, until: Until) -> str:
        token = self._special(until.text)
        if token is not None:
            return f"{_any_text(until)} <[{token}]>"
        return self._untils.setdefault(until, f"until_{len(self._untils)}")


def call_grammar(form: "CallFormat", tools: Sequence["Tool"], *, parallel: bool, special: SpecialId) -> str:
    """Return the grammar, in Lark, of answers that consist of calls of these tools.

    One call at least, and one at most unless `parallel`.
    """
    rules = _Rules(special)
    calls = " | ".join(f"call_{i}" for i in range(len(tools)))
    lines = [f"start: {_start(form, rules, parallel=parallel)}", f"call: {calls}"]
    lines += [f"call_{i}: {rules.terms(form.write(tool))}" for i, tool in enumerate(tools)]
    return "\n".join([*lines, *rules.lines()])


def _start(form: "CallFormat", rules: _Rules, *, parallel: bool) -> str:
    begin, end = rules.marker(form.begin), rules.marker(form.end)
    if form.is_list:
        more = ['(", " call)*'] if parallel else []
        sections = [*begin, '"["', "call", *more, '"]"', *end]
    else:
        section = [*begin, "call", *end]
        more = [f"({' '.join(section)})*"] if parallel and (begin or end) else []
        sections = [*section, *more]
    return " ".join((*rules.marker(form.opening), *sections, *rules.marker(form.closing)))


def _any_text(until: Until) -> str:
    return "/(?s:.*)/" if until.most is None else f"/(?s:.{{0,{until.most}}})/"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
