"""Calls as they grow: the name as soon as it is written, then the arguments piece by piece."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rase_models.chat.held_text import HeldText
from rase_models.chat.parts import ArgumentPiece, Part, ToolCall
from rase_models.chat.tool_calls.tool import Tool, Tools
from rase_models.chat.tool_calls.typed_arguments import is_text, properties_of, typed_arguments

_LONGEST_HEAD = 1024
"""Characters of what begins a call or an argument, which is looked for again with each piece of text.

A call whose head is longer comes whole, and an argument whose head is longer when its call ends.
"""


class ArgumentReader(Protocol):
    """Makes the arguments of one call, a JSON object, of the text behind its head."""

    is_whole: bool
    """Whether the object has ended."""

    def take(self, text: str) -> tuple[str, int]:
        """Return the JSON that became certain, and how many characters of the text that used up."""

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
        self._depth, self._is_text, self._is_escaped, self._is_broken = 0, False, False, False

    def take(self, text: str) -> tuple[str, int]:
        """Return the text up to the end of the object, or up to what JSON cannot have; the rest is lost."""
        if self._is_broken:
            return "", len(text)
        for at, character in enumerate(text):
            self._step(character)
            if self._is_broken:
                return text[:at], len(text)
            if self.is_whole:
                return text[: at + 1], at + 1
        return text, len(text)

    def close(self, rest: str) -> str:
        """Return nothing."""
        return ""

    def _step(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_text:
            self._is_escaped, self._is_text = character == "\\", character != '"'
            self._is_broken = character < " "
        elif character == '"':
            self._is_text = True
        else:
            self._depth += _DEPTHS.get(character, 0)
            self._is_broken = character not in _JSON
            self.is_whole = self._depth == 0 and character == "}"


_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}
_JSON = frozenset(" \t\r\n{}[]:,+-.0123456789eEtrufalsn")


@dataclass(frozen=True, slots=True)
class ArgumentTags:
    """Tags around arguments: `opening`, whose groups are the key and whether it is text, and `closing`.

    Where there are `own_lines`, a line break next to a tag is no part of the value.
    """

    opening: "re.Pattern[str]"
    closing: str
    own_lines: bool = False

    def reader(self, tool: Tool | None) -> "TaggedArguments":
        """Return what reads the arguments of a call of the tool."""
        return TaggedArguments(self, tool)


class TaggedArguments:
    """Arguments between tags; texts come piece by piece, other values when they are whole."""

    def __init__(self, tags: ArgumentTags, tool: Tool | None) -> None:
        self.is_whole = False
        self._tags, self._tool = tags, tool
        self._properties = properties_of(tool) if tool is not None else {}
        self._held, self._key, self._value = HeldText(), "", ""
        self._is_text = self._is_open = self._is_fresh = False
        self._before = "{"

    def take(self, text: str) -> tuple[str, int]:
        """Return the JSON of the arguments and parts of arguments in the text."""
        return self._take(text, _LONGEST_HEAD)

    def _take(self, text: str, longest_head: int) -> tuple[str, int]:
        pieces: list[str] = []
        at = 0
        while True:
            if not self._is_open:
                opening = self._tags.opening.match(text, at, at + longest_head)
                if opening is None:
                    return "".join(pieces), at
                at = opening.end()
                pieces.append(self._begin(opening))
            self._held.add(text[at:])
            at = len(text)
            value, closing = self._held.take_until((self._tags.closing,))
            pieces.append(self._go_on(value, is_last=closing is not None))
            if closing is None:
                return "".join(pieces), at
            at -= len(self._held.take_all())
            self._is_open = False

    def close(self, rest: str) -> str:
        """Return the end of the object, and before it the arguments that have come too late."""
        late, _ = self._take(rest, len(rest))
        return late + ("{}" if self._before == "{" else "}")

    def _begin(self, opening: "re.Match[str]") -> str:
        key, said = opening[1].strip(), opening.group(2) if self._tags.opening.groups > 1 else None
        self._is_text = is_text(self._properties.get(key, {})) if said is None else said == "true"
        self._key, self._value, self._is_open, self._is_fresh = key, "", True, True
        before, self._before = self._before, ", "
        return f"{before}{_json(key)}: " + ('"' if self._is_text else "")

    def _go_on(self, text: str, *, is_last: bool) -> str:
        self._value += text
        if self._tags.own_lines and self._is_fresh and self._value:
            self._value, self._is_fresh = self._value.removeprefix("\n"), False
        if is_last:
            value = self._value.removesuffix("\n") if self._tags.own_lines else self._value
            return _json(value)[1:] if self._is_text else self._typed(value)
        if not self._is_text:
            return ""
        has_end = self._tags.own_lines and self._value.endswith("\n")
        ready, self._value = (self._value[:-1], "\n") if has_end else (self._value, "")
        return _json(ready)[1:-1]

    def _typed(self, value: str) -> str:
        return _json(typed_arguments([(self._key, value)], self._tool)[self._key])


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
        head = growth.head.match(self._rest, 0, _LONGEST_HEAD)
        if head is None or (self._only_known and head[1] not in self._tools):
            return False
        self._rest = self._rest[head.end() :]
        parts.append(self.begin(head[1], growth.arguments(self._tools.get(head[1]))))
        return True

    def _go_on(self, parts: list[Part]) -> bool:
        """Read on in the arguments; whether they have ended."""
        assert self._arguments is not None
        piece, used = self._arguments.take(self._rest)
        self._rest = self._rest[used:]
        if piece:
            parts.append(ArgumentPiece(self.begun - 1, piece))
        if self._arguments.is_whole:
            self._arguments = None
        return self._arguments is None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_growth(head: str) -> Growth:
    """Return how calls begin behind whose head, a pattern, their arguments stand in JSON."""
    return Growth(re.compile(rf"{head}\s*(?=\{{)", re.DOTALL), JsonArguments)


OBJECTS = json_growth(
    r'[\s\[\],;}]*(?:<\|python_tag\|>)?\{\s*(?:"tool_call_id"\s*:\s*"[^"\\]*"\s*,\s*)?'
    r'"(?:name|tool_name)"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
"""Calls that are objects, with the name before the arguments."""
