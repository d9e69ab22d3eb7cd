"""Telling the texts within a call, in which nothing is a marker, from what is around them."""

import re
from typing import Protocol

_JSON = re.compile(r'\\.|\\|"', re.DOTALL)
_PYTHON = re.compile(r"""\\.|\\|["'\n]""", re.DOTALL)
_JSON_END = re.compile(r'\\.|"', re.DOTALL)


class OpenText(Protocol):
    """Whether a text is open at the end of what has come of a call, each piece of which is looked at once."""

    @property
    def is_open(self) -> bool:
        """Whether one is."""

    def add(self, piece: str) -> None:
        """Take what comes next."""


class Quotes:
    """Tells of texts in JSON; an `OpenText`."""

    def __init__(self) -> None:
        self.is_open = False
        self._escape = ""

    def add(self, piece: str) -> None:
        """Take what comes next."""
        found = _JSON.findall(self._escape + piece)
        self._escape = "\\" if found and found[-1] == "\\" else ""
        self.is_open ^= found.count('"') % 2 == 1


class PythonQuotes:
    """Tells of texts in a line of Python's; an `OpenText`."""

    def __init__(self) -> None:
        self._quote = self._escape = ""

    @property
    def is_open(self) -> bool:
        """Whether a text is open."""
        return bool(self._quote)

    def add(self, piece: str) -> None:
        """Take what comes next."""
        found = _PYTHON.findall(self._escape + piece)
        self._escape = "\\" if found and found[-1] == "\\" else ""
        for mark in found:
            if mark in (self._quote, "\n"):
                self._quote = ""
            elif not self._quote and mark in ("'", '"'):
                self._quote = mark


class QuotesBesideMarks:
    """Tells of texts in JSON beside others that a mark begins and ends; an `OpenText`."""

    def __init__(self, mark: str) -> None:
        self._mark, self._rest, self._open = mark, "", ""
        named = re.escape(mark)
        self._next = {"": re.compile(f'{named}|"'), mark: re.compile(named), '"': _JSON_END}

    @property
    def is_open(self) -> bool:
        """Whether a text in JSON is open."""
        return self._open == '"'

    def add(self, piece: str) -> None:
        """Take what comes next."""
        text = self._rest + piece
        size = next(size for size in range(len(self._mark) - 1, -1, -1) if text.endswith(self._mark[:size]))
        end, at = len(text) - size, 0
        while found := self._next[self._open].search(text, at, end):
            at = found.end()
            if found[0] == self._open:
                self._open = ""
            elif not self._open:
                self._open = found[0]
        is_escaping = self.is_open and text.endswith("\\", at, end)
        self._rest = text[end - is_escaping :]


class ValueQuotes:
    """Tells of texts in one value of JSON, and whether it is broken, being none."""

    def __init__(self) -> None:
        self._syntax, self._is_begun = JsonSyntax(), False

    @property
    def is_broken(self) -> bool:
        """Whether what has come begins no object, list or text, or cannot be in it."""
        return self._syntax.is_broken

    @property
    def is_open(self) -> bool:
        """Whether a text is open."""
        return self._syntax.is_text and not self.is_broken

    def add(self, piece: str) -> None:
        """Take what comes next."""
        for character in piece if self._is_begun else piece.lstrip():
            self._syntax.is_broken |= not self._is_begun and character not in '{["'
            self._is_begun = True
            if self.is_broken:
                return
            self._syntax.step(character)


class JsonSyntax:
    """Follows JSON letter by letter, as far as texts and brackets go."""

    def __init__(self) -> None:
        self.depth, self.is_text, self.is_broken = 0, False, False
        self._is_escaped = False

    def step(self, character: str) -> None:
        """Go on by a letter."""
        if self._is_escaped:
            self._is_escaped = False
        elif self.is_text:
            self._is_escaped, self.is_text = character == "\\", character != '"'
            self.is_broken = character < " "
        elif character == '"':
            self.is_text = True
        else:
            self.depth += _DEPTHS.get(character, 0)
            self.is_broken = character not in _OF_JSON


_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}
_OF_JSON = frozenset(" \t\r\n{}[]:,+-.0123456789eEtrufalsn")
