"""Arguments between tags, as they come in a stream."""

import json
import re
from dataclasses import dataclass
from typing import Protocol

from rase_models.chat.held_text import HeldText
from rase_models.chat.tool_calls.growth import LONGEST_HEAD
from rase_models.chat.tool_calls.quotes import ValueQuotes
from rase_models.chat.tool_calls.tool import Tool
from rase_models.chat.tool_calls.typed_arguments import is_text, properties_of, typed_arguments


@dataclass(frozen=True, slots=True)
class ArgumentTags:
    """Tags around arguments: `opening`, whose groups are the key and whether it is text, and `closing`.

    Where there are `own_lines`, a line break next to a tag is no part of the value.
    """

    opening: "re.Pattern[str]"
    closing: str
    own_lines: bool = False

    def is_text(self, opening: "re.Match[str]", tool: Tool | None) -> bool:
        """Whether an argument is a text: as its opening tag says, else as the tool does."""
        if self.opening.groups > 1 and opening[2] is not None:
            return opening[2] == "true"
        return tool is not None and is_text(properties_of(tool).get(opening[1].strip(), {}))

    def unframed(self, value: str) -> str:
        """Return a value without the line breaks that are no part of it."""
        return value.removeprefix("\n").removesuffix("\n") if self.own_lines else value

    def reader(self, tool: Tool | None) -> "TaggedArguments":
        """Return what reads the arguments of a call of the tool."""
        return TaggedArguments(self, tool)


class TaggedArguments:
    """Arguments between tags; texts come piece by piece, other values when they are whole."""

    def __init__(self, tags: ArgumentTags, tool: Tool | None) -> None:
        self.is_whole = False
        self._tags, self._tool = tags, tool
        self._value: ValueReader | None = None
        self._before = "{"

    @property
    def is_within_text(self) -> bool:
        """Whether a text is open within a value in JSON."""
        return self._value is not None and self._value.is_within_text

    def take(self, text: str) -> tuple[str, str]:
        """Return the JSON of the arguments and parts of arguments in the text."""
        return self._take(text, LONGEST_HEAD)

    def _take(self, text: str, longest_head: int) -> tuple[str, str]:
        pieces: list[str] = []
        at = 0
        while True:
            if self._value is None:
                opening = self._tags.opening.match(text, at, at + longest_head)
                if opening is None:
                    return "".join(pieces), text[at:]
                at = opening.end()
                pieces.append(self._begin(opening))
            assert self._value is not None
            piece, rest = self._value.take(text[at:])
            pieces.append(piece)
            if rest is None:
                return "".join(pieces), ""
            text, at, self._value = rest, 0, None

    def close(self, rest: str) -> str:
        """Return the end of the object, and before it the arguments that have come too late."""
        late, _ = self._take(rest, len(rest))
        return late + ("{}" if self._before == "{" else "}")

    def _begin(self, opening: "re.Match[str]") -> str:
        key, before = opening[1].strip(), self._before
        self._before = ", "
        if self._tags.is_text(opening, self._tool):
            self._value = TextValue(self._tags)
            return f'{before}{_json(key)}: "'
        self._value = TypedValue(self._tags, key, self._tool)
        return f"{before}{_json(key)}: "


class ValueReader(Protocol):
    """Makes JSON of one value between tags."""

    @property
    def is_within_text(self) -> bool:
        """Whether a text is open in JSON."""

    def take(self, text: str) -> tuple[str, str | None]:
        """Return the JSON that became certain, and the text behind the value; None where it goes on."""


class TextValue:
    """A value that is a text, up to the closing tag; a `ValueReader`."""

    is_within_text = False

    def __init__(self, tags: ArgumentTags) -> None:
        self._tags, self._held = tags, HeldText()
        self._waiting, self._is_fresh = "", True

    def take(self, text: str) -> tuple[str, str | None]:
        """Return what is new of the text."""
        self._held.add(text)
        value, closing = self._held.take_until((self._tags.closing,))
        self._waiting += value
        if self._tags.own_lines and self._is_fresh and self._waiting:
            self._waiting, self._is_fresh = self._waiting.removeprefix("\n"), False
        if closing is not None:
            last = self._waiting.removesuffix("\n") if self._tags.own_lines else self._waiting
            return _json(last)[1:], self._held.take_all()
        has_end = self._tags.own_lines and self._waiting.endswith("\n")
        ready, self._waiting = (self._waiting[:-1], "\n") if has_end else (self._waiting, "")
        return _json(ready)[1:-1], None


class TypedValue:
    """A value in JSON, which may have closing tags in its texts, or a text that is none; a `ValueReader`."""

    def __init__(self, tags: ArgumentTags, key: str, tool: Tool | None) -> None:
        self._tags, self._key, self._tool = tags, key, tool
        self._held, self._quotes = HeldText(), ValueQuotes()
        self._value, self._first = "", -1

    @property
    def is_within_text(self) -> bool:
        """Whether a text is open."""
        return self._quotes.is_open

    def take(self, text: str) -> tuple[str, str | None]:
        """Return the whole value behind its end, which is the first closing tag where it is no JSON."""
        self._held.add(text)
        while True:
            value, closing = self._held.take_until((self._tags.closing,))
            self._add(value)
            if self._quotes.is_broken and self._first >= 0:
                return self._cut(closing or "")
            if closing is None:
                return "", None
            if not self._quotes.is_open:
                return self._typed(self._value), self._held.take_all()
            self._first = len(self._value) if self._first < 0 else self._first
            self._add(closing)

    def _add(self, text: str) -> None:
        self._value += text
        self._quotes.add(text)

    def _cut(self, closing: str) -> tuple[str, str]:
        """End the value where it would have ended if it had not begun as JSON does."""
        text, end = f"{self._value}{closing}{self._held.take_all()}", self._first
        return self._typed(text[:end]), text[end + len(self._tags.closing) :]

    def _typed(self, value: str) -> str:
        pair = self._key, self._tags.unframed(value)
        return _json(typed_arguments([pair], self._tool)[self._key])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
