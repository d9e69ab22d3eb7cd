"""Patterns of JSON Schema, which are ECMA 262's, in the syntax that llguidance reads."""

import re
from collections.abc import Callable, Mapping

from rase_models.constraints.schema.negation import literal

_SPACE = r"\t\n\x0B\x0C\r \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}"
_SETS: Mapping[str, str] = {
    "d": "0-9",
    "w": "0-9A-Za-z_",
    "s": _SPACE,
    "D": "^0-9",
    "W": "^0-9A-Za-z_",
    "S": f"^{_SPACE}",
}
_CONTROLS: Mapping[str, str] = {"t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f", "0": "\0"}
_EMPTY_CLASSES = {"[": r"[^\s\S]", "[^": r"[\s\S]"}
_ANY_BUT_LINE_ENDS = r"[^\n\r\u{2028}\u{2029}]"

_ESCAPE = re.compile(
    r"\\(?:(?P<set>[dDwWsS])|(?P<control>[tnrvf]|0(?![0-9]))|c(?P<letter>[A-Za-z])"
    r"|x(?P<byte>[0-9a-fA-F]{2})|u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|u(?P<unit>[0-9a-fA-F]{4})|u\{(?P<code>[0-9a-fA-F]{1,8})\}"
    r"|(?P<property>[pP]\{\w+(?:=\w+)?\})|(?P<plain>[^A-Za-z0-9]))",
    re.DOTALL,
)
_GROUP = re.compile(r"\((?:\?(?::|[=!]|<[=!]|P?<[A-Za-z_$][\w$]*>|i\)|i:|-i:))?")
_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[:)]")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_TOLD_OF = re.compile(r"\\[bB1-9]")
"""Word boundaries and references back, which llguidance refuses with a reason."""


class NoPattern(Exception):
    """A text is no regular expression of ECMA 262; says why."""


def translated(pattern: str) -> str:
    """Return a pattern in the syntax of llguidance's regular expressions; raises NoPattern."""
    return _Reader(pattern).text()


class _Reader:
    """Reads a pattern from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._open_groups = pattern, 0, 0
        self._parts: list[str] = []

    def text(self) -> str:
        """Return the pattern in the other syntax."""
        is_repeated = False
        while self._at < len(self._pattern):
            quantifier = _QUANTIFIER.match(self._pattern, self._at)
            if quantifier is not None:
                if is_repeated:
                    raise NoPattern(f"{quantifier[0]!r} has nothing before it to repeat")
                self._add(quantifier.end(), quantifier[0])
            else:
                _READS.get(self._pattern[self._at], _Reader._literal)(self)
            is_repeated = quantifier is not None
        if self._open_groups:
            raise NoPattern("a group is not closed")
        return "".join(self._parts)

    def _add(self, end: int, text: str) -> None:
        self._parts.append(text)
        self._at = end

    def _as_it_is(self) -> None:
        self._add(self._at + 1, self._pattern[self._at])

    def _literal(self) -> None:
        self._add(self._at + 1, _spelt(self._pattern[self._at]))

    def _dot(self) -> None:
        self._add(self._at + 1, _ANY_BUT_LINE_ENDS)

    def _group(self) -> None:
        flags = _FLAGS.match(self._pattern, self._at)
        found = _GROUP.match(self._pattern, self._at)
        assert found is not None
        if flags is not None and flags[0] not in ("(?:", "(?i)", "(?i:", "(?-i:"):
            raise NoPattern(f"the flags {flags[0]!r} are not supported")
        self._open_groups += found[0] != "(?i)"
        self._add(found.end(), found[0])

    def _group_end(self) -> None:
        if not self._open_groups:
            raise NoPattern("a group is closed that was not opened")
        self._open_groups -= 1
        self._as_it_is()

    def _escape(self) -> None:
        told_of = _TOLD_OF.match(self._pattern, self._at)
        if told_of is not None:
            self._add(told_of.end(), told_of[0])
            return
        text, end, is_set = self._escaped()
        self._add(end, f"[{text}]" if is_set and text[:2] not in ("\\p", "\\P") else text)

    def _class(self) -> None:
        """Read a class; `[` within one is a character as others are."""
        start = "[^" if self._pattern.startswith("[^", self._at) else "["
        self._at += len(start)
        if self._pattern.startswith("]", self._at):
            self._add(self._at + 1, _EMPTY_CLASSES[start])
            return
        parts = []
        while not self._pattern.startswith("]", self._at):
            parts.append(self._class_part())
        self._add(self._at + 1, f"{start}{''.join(parts)}]")

    def _class_part(self) -> str:
        first, is_set = self._class_character()
        if not self._pattern.startswith("-", self._at) or self._pattern.startswith("-]", self._at):
            return first
        self._at += 1
        last, is_other_set = self._class_character()
        return f"{first}\\-{last}" if is_set or is_other_set else f"{first}-{last}"

    def _class_character(self) -> tuple[str, bool]:
        """Return a character of a class or a set of them, and whether it is a set."""
        if self._at >= len(self._pattern):
            raise NoPattern("a class has no end")
        if self._pattern.startswith(r"\b", self._at):
            self._at += 2
            return r"\x08", False
        if self._pattern[self._at] != "\\":
            self._at += 1
            return _spelt(self._pattern[self._at - 1]), False
        text, self._at, is_set = self._escaped()
        return f"[{text}]" if is_set and text.startswith("^") else text, is_set

    def _escaped(self) -> tuple[str, int, bool]:
        """Return what an escape means, where it ends, and whether that is a set of characters."""
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            raise NoPattern(_no_escape(self._pattern[self._at : self._at + 2]))
        kind = str(found.lastgroup)
        text = found[kind]
        if kind == "set":
            return _SETS[text], found.end(), True
        if kind == "property":
            return f"\\{text}", found.end(), True
        return _spelt(_CHARACTERS[kind](found)), found.end(), False


def _no_escape(text: str) -> str:
    if text in ("\\A", "\\z", "\\Z"):
        return f"{text} is no anchor of ECMA 262; ^ and $ are"
    return f"no such escape: {text}" if len(text) > 1 else "an escape is not complete"


def _spelt(character: str) -> str:
    """Return a character as it is written anywhere."""
    if 0xD800 <= ord(character) <= 0xDFFF:
        raise NoPattern("it has half of a surrogate pair")
    return literal(character) if character.isprintable() else f"\\x{{{ord(character):X}}}"


def _code_point(found: "re.Match[str]") -> str:
    code = int(found["code"], 16)
    if code > 0x10FFFF:
        raise NoPattern(f"no character has the number {found['code']}")
    return chr(code)


_CHARACTERS: Mapping[str, Callable[["re.Match[str]"], str]] = {
    "control": lambda found: _CONTROLS[found["control"]],
    "letter": lambda found: chr(ord(found["letter"]) % 32),
    "byte": lambda found: chr(int(found["byte"], 16)),
    "low": lambda found: chr(
        0x10000 + ((int(found["high"], 16) & 0x3FF) << 10) + (int(found["low"], 16) & 0x3FF)
    ),
    "unit": lambda found: chr(int(found["unit"], 16)),
    "code": _code_point,
    "plain": lambda found: found["plain"],
}

_READS: Mapping[str, Callable[[_Reader], None]] = {
    **dict.fromkeys("^$|*+?", _Reader._as_it_is),
    ")": _Reader._group_end,
    ".": _Reader._dot,
    "(": _Reader._group,
    "\\": _Reader._escape,
    "[": _Reader._class,
}
