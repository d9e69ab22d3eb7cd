r"""Reads the regular expressions that cut texts: as much of Oniguruma's as automata can do.

That is characters and sets of them, choices, groups, repetitions, letters of either case, and a look at one
character ahead (`(?!\S)`). A possessive repetition is taken for a greedy one, which finds the same where what
follows cannot begin with what is repeated.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.character_kinds import KINDS_OF, SPACES

Kinds: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.uint32]
Test: TypeAlias = Callable[[Codes, Kinds], NDArray[np.bool_]]
"""A set of characters: tells, of code points and their kinds, which of them are in it."""

_ENDLESS = 1 << 30
_LEAST_COUNT = re.compile(r"([*+?]|\{(\d+)(,?)(\d*)\})\+?")
_SHORT_COUNTS = {"*": (0, _ENDLESS), "+": (1, _ENDLESS), "?": (0, 1)}
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_FOLDED = {"s": "\u017f", "k": "\u212a"}
"""Letters outside of ASCII that differ from one of it by their case only."""


class UnknownExpression(ValueError):
    """An expression that is more than is known here."""


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """One character of a set."""

    test: Test


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Nothing, before the end or a character of a set."""

    test: Test


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The first that leads to a match."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """So many times, rather more than less; `most` is None where there is no limit."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = One | Ahead | Chain | Choice | Repeated


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression says.

    Attributes:
        node: its meaning.
        bounds: the code points, besides those where kinds begin, at which a set of it may begin or end.
    """

    node: Node
    bounds: frozenset[int]


def read_expression(text: str) -> Expression:
    """Read an expression; UnknownExpression where it is more than is known here."""
    reader = _Reader(text)
    node = reader.choice()
    if reader.rest():
        raise UnknownExpression(text)
    return Expression(node, frozenset(reader.bounds))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._folds = False
        self.bounds: set[int] = set()

    def rest(self) -> str:
        return self._text[self._at :]

    def choice(self) -> Node:
        parts = [self._chain()]
        while self._takes("|"):
            parts.append(self._chain())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _chain(self) -> Node:
        parts = list[Node]()
        while self.rest() and self.rest()[0] not in "|)":
            parts.append(self._counted(self._single()))
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))

    def _counted(self, part: Node) -> Node:
        while found := _LEAST_COUNT.match(self._text, self._at):
            self._at = found.end()
            sign, least, comma, most = found.groups()
            if sign in _SHORT_COUNTS:
                fewest, highest = _SHORT_COUNTS[sign]
            else:
                fewest = int(least)
                highest = int(most) if most else _ENDLESS if comma else fewest
            part = Repeated(part, fewest, None if highest == _ENDLESS else highest)
            if self._takes("?"):
                raise UnknownExpression(self._text)  # rather less than more
        return part

    def _single(self) -> Node:
        if self._takes("(?i:"):
            return self._group(folds=True)
        if self._takes("(?:"):
            return self._group(folds=self._folds)
        if self._takes("(?!"):
            inside = self._group(folds=self._folds)
            if not isinstance(inside, One):
                raise UnknownExpression(self._text)
            return Ahead(_negated(inside.test))
        if self._takes("["):
            return One(self._set())
        if self.rest()[0] in "(^$.*+?{":
            raise UnknownExpression(self._text)
        return One(self._character())

    def _group(self, *, folds: bool) -> Node:
        before, self._folds = self._folds, folds
        node = self.choice()
        self._folds = before
        self._expect(")")
        return node

    def _character(self) -> Test:
        """Read a character or the name of a set."""
        named = self._named_set()
        return self._of(self._cases(self._letter())) if named is None else named

    def _named_set(self) -> Test | None:
        for name, negated in (("\\s", False), ("\\S", True)):
            if self._takes(name):
                spaces = self._of(SPACES)
                return _negated(spaces) if negated else spaces
        return self._property() if self._takes("\\p") else None

    def _letter(self) -> str:
        """Read a character that stands for itself, or is written with a backslash."""
        if not self._takes("\\"):
            return self._next()
        name = self._next()
        if name.isalnum() and name not in _NAMED:
            raise UnknownExpression(self._text)
        return _NAMED.get(name, name)

    def _property(self) -> Test:
        self._expect("{")
        name = self._text[self._at : self._text.find("}", self._at)]
        self._at += len(name)
        self._expect("}")
        if name not in KINDS_OF:
            raise UnknownExpression(self._text)
        chosen = np.zeros(256, np.bool_)
        chosen[list(KINDS_OF[name])] = True
        return lambda _, kinds: chosen[kinds]

    def _set(self) -> Test:
        """Read what follows on `[`; `&&` joins as in both, everything else as in either."""
        negated, both = self._takes("^"), list[Test]()
        while True:
            either = list[Test]()
            while not self.rest().startswith(("]", "&&")):
                either.append(self._set() if self._takes("[") else self._member())
            both.append(_any(either))
            if not self._takes("&&"):
                break
        self._expect("]")
        return _negated(_all(both)) if negated else _all(both)

    def _member(self) -> Test:
        """Read a character of a set, the name of a set, or two characters and a `-` between them."""
        named = self._named_set()
        if named is not None:
            return named
        first = self._letter()
        if self.rest().startswith("-") and not self.rest().startswith("-]"):
            self._at += 1
            return self._between(ord(first), ord(self._letter()))
        return self._of(self._cases(first))

    def _cases(self, character: str) -> str:
        if not (self._folds and character.isalpha()):
            return character
        if not character.isascii():
            raise UnknownExpression(self._text)
        lower = character.lower()
        return lower + lower.upper() + _FOLDED.get(lower, "")

    def _of(self, characters: Iterable[str]) -> Test:
        return _any([self._between(ord(character), ord(character)) for character in characters])

    def _between(self, first: int, last: int) -> Test:
        self.bounds |= {first, last + 1}
        return lambda codes, _: (codes >= first) & (codes <= last)

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise UnknownExpression(self._text)

    def _next(self) -> str:
        if not self.rest():
            raise UnknownExpression(self._text)
        self._at += 1
        return self._text[self._at - 1]


def _negated(test: Test) -> Test:
    return lambda codes, kinds: ~test(codes, kinds)


def _any(tests: Iterable[Test]) -> Test:
    found = tuple(tests)
    return lambda codes, kinds: np.logical_or.reduce([test(codes, kinds) for test in found])


def _all(tests: Iterable[Test]) -> Test:
    found = tuple(tests)
    return lambda codes, kinds: np.logical_and.reduce([test(codes, kinds) for test in found])
