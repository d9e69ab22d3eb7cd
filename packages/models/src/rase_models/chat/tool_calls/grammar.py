"""The grammars of answers that must call a tool, and of those that may."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rase_core.errors import UnenforceableFormat

from rase_models.chat.tool_calls.whole_pattern import whole_pattern
from rase_models.constraints.response_format import JSON_WHITESPACE, MOST_TEXT, TOOLS
from rase_models.constraints.schema import Budget, prepared_once

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
    """Any text up to this one, and this one; of so many characters, and with a match of the pattern in it.

    The text has none of `without` in it.
    """

    text: str
    most: int | None = None
    least: int = 0
    pattern: str | None = None
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Symbols in a row that a grammar has written once, however often it refers to them."""

    symbols: "Sequence[Symbol]"


_GUIDANCE: Mapping[str, object] = {"whitespace_pattern": JSON_WHITESPACE}

Symbol = Text | Json | Lark | Until | Part
SpecialId = Callable[[str], int | None]
"""Tells the id of a text that is a token without text of its own."""


class _Rules:
    """The rules of one grammar as it is written."""

    def __init__(self, special: SpecialId, *, is_lenient: bool) -> None:
        self._special = special
        self._guidance = dict(_GUIDANCE) | ({"lenient": True} if is_lenient else {})
        self._is_lenient = is_lenient
        self._budget, self._written = Budget(), 0
        self._untils: dict[Until, str] = {}
        self._parts: dict[Part, str] = {}

    def term(self, symbol: Symbol) -> str:
        """Return a symbol as Lark writes it."""
        match symbol:
            case Text(text):
                token = self._special(text)
                return _quoted(text) if token is None else f"<[{token}]>"
            case Json(schema):
                return f"%json {json.dumps(self._prepared(schema))}"
            case Until():
                return self._until(symbol)
            case Part():
                return self._parts.setdefault(symbol, f"part_{len(self._parts)}")
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
        lines = list(self._lines_of_parts())
        for until, name in self._untils.items():
            is_text = self._special(until.text) is None
            lines.append(f"{name.upper()}: {self._text_of(until)}")
            lines += [f"{name}[suffix={_quoted(until.text)}]: {name.upper()}"] if is_text else []
        return lines

    def _text_of(self, until: Until) -> str:
        try:
            return any_text(until)
        except UnenforceableFormat:
            if not self._is_lenient:
                raise
            return any_text(replace(until, pattern=None))

    def _lines_of_parts(self) -> Iterator[str]:
        """Yield the rules of parts, which may have further ones in them."""
        written = 0
        while written < len(self._parts):
            for part, name in list(self._parts.items())[written:]:
                yield f"{name}: {self.terms(part.symbols)}"
                written += 1

    def _prepared(self, schema: Mapping[str, object]) -> Mapping[str, object]:
        body = prepared_once(schema, is_lenient=self._is_lenient, budget=self._budget)
        if isinstance(body, bool):
            body = {} if body else {"enum": []}
        self._written += len(json.dumps(body))
        if self._written > MOST_TEXT:
            reason = f"the schemas have more than {MOST_TEXT} characters, without annotations"
            raise UnenforceableFormat(TOOLS, reason)
        return {**body, "x-guidance": self._guidance}

    def _until(self, until: Until) -> str:
        name = self._untils.setdefault(until, f"until_{len(self._untils)}")
        token = self._special(until.text)
        return name if token is None else f"{name.upper()} <[{token}]>"


@dataclass(frozen=True, slots=True)
class CallGrammar:
    """The grammars, in Lark, of answers with calls of tools: one call at most unless `parallel`.

    `special` tells which markers are tokens. A `lenient` one ignores what of the schemas cannot be enforced.
    """

    form: "CallFormat"
    tools: Sequence["Tool"]
    parallel: bool
    special: SpecialId
    is_lenient: bool = False

    def demanded(self, *, has_opening: bool = True) -> str:
        """Return the grammar of answers that are calls; without the opening, from the first call on."""
        rules = _Rules(self.special, is_lenient=self.is_lenient)
        return self._text(" ".join(self._calls(rules, has_opening=has_opening)), rules)

    def prelude(self) -> str:
        """Return the grammar of what comes before what is said, where the format has something there."""
        rules = _Rules(self.special, is_lenient=self.is_lenient)
        return "\n".join([f"start: {rules.terms(self.form.prelude)}", *rules.lines()])

    def offered(self) -> str:
        """Return the grammar of answers that say something, or call after it, or both.

        Their markers are text. What begins as a call does where calls have no marker is one.
        """
        rules = _Rules(self.special, is_lenient=self.is_lenient)
        if self.form.offer:
            return self._text(rules.terms(self.form.offer), rules)
        openings = [text for text in (self.form.opening, self.form.begin) if text]
        if not openings:
            return self._text(f"(SAID)? | {self._unmarked(rules)}", rules, self._said_instead())
        starts = ["SAID"]
        lines = [f"SAID: /(?s:.*)/ & {_without(openings)}"]
        for i, opening in enumerate(openings):
            rest = self._calls(rules, has_opening=opening == self.form.opening)[1:]
            starts.append(f"opening_{i} {' '.join(rest)}")
            lines.append(f"opening_{i}[lazy]: /(?s:.*){_escaped(opening)}/")
        return self._text(" | ".join(starts), rules, *lines)

    def _unmarked(self, rules: _Rules) -> str:
        calls = " ".join(self._calls(rules, has_opening=False))
        tokens = [f"<[{token}]>" for text in self.form.starts if (token := self.special(text)) is not None]
        return " | ".join([calls, *(f"{token} {calls}" for token in tokens)])

    def _said_instead(self) -> str:
        begins = "".join(sorted({_escaped(text[0]) for text in self.form.starts if len(text) == 1}))
        return rf"SAID: /\s*[^\s{begins}](?s:.*)/"

    def _text(self, start: str, rules: _Rules, *more: str) -> str:
        calls = " | ".join(f"call_{i}" for i in range(len(self.tools)))
        lines = [f"start: {start}", f"call: {calls}", 'seam: ("\\n")?', *more]
        lines += [f"call_{i}: {rules.terms(self.form.write(tool))}" for i, tool in enumerate(self.tools)]
        return "\n".join([*lines, *rules.lines()])

    def _calls(self, rules: _Rules, *, has_opening: bool) -> list[str]:
        form = self.form
        begin, end = rules.marker(form.begin), rules.marker(form.end)
        opening = [*rules.marker(form.opening), "seam"] if has_opening and form.opening else []
        closing = ["seam", *rules.marker(form.closing)] if has_opening and form.closing else []
        if form.is_list:
            more = ['(", " call)*'] if self.parallel else []
            return [*opening, *begin, '"["', "call", *more, '"]"', *end, *closing]
        section = [*begin, "call", *end]
        more = [f"(seam {' '.join(section)})*"] if self.parallel and (begin or end) else []
        return [*opening, *section, *more, *closing]


def any_text(until: Until) -> str:
    """Return the terminal of the texts before the end of one; raises UnenforceableFormat for its pattern."""
    is_bounded = until.least or until.most is not None
    most = "" if until.most is None else until.most
    terms = [f"/(?s:.{{{until.least},{most}}})/" if is_bounded else "/(?s:.*)/"]
    terms += [] if until.pattern is None else [f"/{whole_pattern(until.pattern)}/"]
    terms += [_without(until.without)] if until.without else []
    return " & ".join(terms)


def _without(texts: Sequence[str]) -> str:
    """Return the terminal of texts that have none of some texts in them."""
    return f"~/(?s:.*)({'|'.join(map(_escaped, texts))})(?s:.*)/"


def _escaped(text: str) -> str:
    return re.sub(r"[^\w<>=:_]", lambda found: "\\" + found[0] if found[0].isascii() else found[0], text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
