"""Calls as they grow: the name as soon as it is written, then the arguments piece by piece."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rase_models.chat.parts import ArgumentPiece, Part, ToolCall
from rase_models.chat.tool_calls.quotes import JsonSyntax
from rase_models.chat.tool_calls.tool import Tool, Tools

LONGEST_HEAD = 1024
"""Characters of what begins a call or an argument, which is looked for again with each piece of text.

A call whose head is longer comes whole, and an argument whose head is longer when its call ends.
"""


class ArgumentReader(Protocol):
    """Makes the arguments of one call, a JSON object, of the text behind its head."""

    is_whole: bool
    """Whether the object has ended."""

    @property
    def is_within_text(self) -> bool:
        """Whether a text in JSON is open, in which nothing is a marker."""

    def take(self, text: str) -> tuple[str, str]:
        """Return the JSON that became certain, and the rest of the text, which is to come again."""

    def close(self, rest: str) -> str:
        """Return what the object lacks, where the call has ended as it should; `rest` was not used up."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How calls of a family begin: what `head` matches, whose group is the name, and then arguments."""

    head: "re.Pattern[str]"
    arguments: Callable[[Tool | None], ArgumentReader]


class JsonArguments:
    """Arguments that are written in JSON; what JSON cannot have ends them."""

    def __init__(self, tool: Tool | None = None) -> None:
        self.is_whole = False
        self._syntax = JsonSyntax()

    @property
    def is_within_text(self) -> bool:
        """Whether a text is open."""
        return self._syntax.is_text and not self._syntax.is_broken

    def take(self, text: str) -> tuple[str, str]:
        """Return the text up to the end of the object, or up to what JSON cannot have; the rest is lost."""
        if self._syntax.is_broken:
            return "", ""
        for at, character in enumerate(text):
            self._syntax.step(character)
            if self._syntax.is_broken:
                return text[:at], ""
            if self._syntax.depth == 0 and character == "}" and not self._syntax.is_text:
                self.is_whole = True
                return text[: at + 1], text[at + 1 :]
        return text, ""

    def close(self, rest: str) -> str:
        """Return nothing."""
        return ""


class GrowingCalls:
    """Tells of calls while their text comes, or of those of known tools alone."""

    def __init__(
        self, growth: Growth | None, tools: Tools, new_id: Callable[[], str], *, only_known: bool = False
    ) -> None:
        self._growth, self._tools, self._new_id, self._only_known = growth, tools, new_id, only_known
        self._rest = ""
        self._arguments: ArgumentReader | None = None
        self.begun = 0

    def push(self, text: str) -> list[Part]:
        """Return what is new."""
        self._rest += text
        parts: list[Part] = []
        while self._growth is not None and (self._arguments or self._begin(self._growth, parts)):
            if not self._go_on(parts):
                break
        return parts

    @property
    def is_within_text(self) -> bool:
        """Whether a text is open in an argument that is written in JSON."""
        return self._arguments is not None and self._arguments.is_within_text

    def begin(self, name: str, arguments: ArgumentReader) -> Part:
        """Begin a call whose arguments come next."""
        self._arguments, self.begun = arguments, self.begun + 1
        return ToolCall(self.begun - 1, self._new_id(), name, "")

    def close(self, *, is_right: bool) -> list[Part]:
        """Return what the last call lacks, where it `is_right`, and forget the rest of the text."""
        arguments, rest = self._arguments, self._rest
        self._arguments, self._rest = None, ""
        lacking = arguments.close(rest) if arguments is not None and is_right else ""
        return [ArgumentPiece(self.begun - 1, lacking)] if lacking else []

    def whole(self, calls: Sequence[tuple[str, str]]) -> list[Part]:
        """Return whole calls, names and arguments, behind those that have come."""
        parts: list[Part] = [
            ToolCall(self.begun + i, self._new_id(), name, arguments)
            for i, (name, arguments) in enumerate(calls)
        ]
        self.begun += len(parts)
        return parts

    def _begin(self, growth: Growth, parts: list[Part]) -> bool:
        head = growth.head.match(self._rest, 0, LONGEST_HEAD)
        if head is None or (self._only_known and head[1] not in self._tools):
            return False
        self._rest = self._rest[head.end() :]
        parts.append(self.begin(head[1], growth.arguments(self._tools.get(head[1]))))
        return True

    def _go_on(self, parts: list[Part]) -> bool:
        """Read on in the arguments; whether they have ended."""
        assert self._arguments is not None
        piece, self._rest = self._arguments.take(self._rest)
        if piece:
            parts.append(ArgumentPiece(self.begun - 1, piece))
        if self._arguments.is_whole:
            self._arguments = None
        return self._arguments is None


def json_growth(head: str) -> Growth:
    """Return how calls begin behind whose head, a pattern, their arguments stand in JSON."""
    return Growth(re.compile(rf"{head}\s*(?=\{{)", re.DOTALL), JsonArguments)


OBJECTS = json_growth(
    r'[\s\[\],;}]*(?:<\|python_tag\|>)?\{\s*(?:"tool_call_id"\s*:\s*"[^"\\]*"\s*,\s*)?'
    r'"(?:name|tool_name)"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
"""Calls that are objects, with the name before the arguments."""
