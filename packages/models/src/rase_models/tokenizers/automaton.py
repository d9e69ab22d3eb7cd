"""Regular expressions as automata, which read a text once: tables of states by classes of characters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.character_kinds import CODE_POINTS, kind_runs
from rase_models.tokenizers.expression import (
    Ahead,
    Chain,
    Choice,
    Expression,
    Node,
    One,
    Test,
    UnknownExpression,
    read_expression,
)

_MOST_STATES = 300
_MOST_STEPS = 400
_MOST_CLASSES = 255
_MATCH = 0


@dataclass(frozen=True, slots=True, eq=False)
class Automata:
    """Expressions that cut a text one after the other.

    A state is the number of its row's first entry. What it leads to on a class is entry >> 1; 0 is no state.
    The lowest bit of an entry tells whether what was read until there, before the character of that class, is
    a match; the last such one counts.

    Attributes:
        classes: uint8 [0x110000], the class of each code point; the end of a text has the one after the last.
        transitions: for each expression int32 [states, classes + 1].
        start: the state that each begins with.
    """

    classes: NDArray[np.uint8]
    transitions: tuple[NDArray[np.int32], ...]
    start: int


@cache
def automata(splits: Sequence[str]) -> Automata | None:
    """Return the automata of expressions; None where one is more than automata of a modest size can do."""
    try:
        return _automata([read_expression(split) for split in splits])
    except UnknownExpression:
        return None


def _automata(expressions: Sequence[Expression]) -> Automata:
    starts, kinds = _atoms({bound for expression in expressions for bound in expression.bounds})
    programs = [_Program(expression.node) for expression in expressions]
    if not (programs and all(program.tests for program in programs)):
        raise UnknownExpression  # which matches nothing at all
    tests = [test(starts, kinds) for program in programs for test in program.tests]
    passed = np.ascontiguousarray(np.array(tests).T)  # [atoms, tests]
    numbers = dict[bytes, int]()
    classes = [numbers.setdefault(row.tobytes(), len(numbers)) for row in passed]
    if len(numbers) > _MOST_CLASSES:
        raise UnknownExpression
    members = [np.frombuffer(row, np.bool_).tolist() for row in numbers]
    transitions, first = list[NDArray[np.int32]](), 0
    for program in programs:
        last = first + len(program.tests)
        transitions.append(_transitions(program, [row[first:last] for row in members]))
        first = last
    lengths = np.diff(starts, append=np.uint32(CODE_POINTS))
    return Automata(np.repeat(np.array(classes, np.uint8), lengths), tuple(transitions), len(numbers) + 1)


def _atoms(bounds: set[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return where the runs of code points begin that no expression tells apart, and their kinds."""
    run_starts, run_kinds = kind_runs()
    more = np.array(sorted(bound for bound in bounds if bound < CODE_POINTS), np.uint32)
    starts = np.union1d(run_starts, more)
    return starts, run_kinds[np.searchsorted(run_starts, starts, side="right") - 1]


@dataclass(frozen=True, slots=True)
class _Step:
    """What leads to other steps, the first of them first.

    Attributes:
        to: the numbers of the steps.
        test: which set the next character must be in; None where it may be any.
        moves: whether that character is read.
    """

    to: tuple[int, ...] = ()
    test: int | None = None
    moves: bool = False


class _Program:
    """The steps of an expression, of which number 0 is the match.

    Attributes:
        tests: the sets of characters.
        first: the step that it begins with.
    """

    def __init__(self, node: Node) -> None:
        self.tests: list[Test] = []
        self._steps = [_Step()]
        self.first = self._add(node, _MATCH)

    def follow(self, steps: Sequence[int], passes: Sequence[bool]) -> tuple[tuple[int, ...], bool]:
        """Return the steps after a character, and whether what is before it is a match.

        `passes` tells which tests the character passes. Steps that matter less than a match are left out.
        """
        waiting, seen, found = [*reversed(steps)], set[int](), list[int]()
        while waiting:
            number = waiting.pop()
            if number == _MATCH:
                return tuple(dict.fromkeys(found)), True
            step = self._steps[number]
            if number in seen or not (step.test is None or passes[step.test]):
                continue
            seen.add(number)
            if step.moves:
                found += step.to
            else:
                waiting += reversed(step.to)
        return tuple(dict.fromkeys(found)), False

    def is_ahead(self) -> list[bool]:
        """Return for each test whether the end of a text passes it."""
        ends = [False] * len(self.tests)
        for step in self._steps:
            if step.test is not None and not step.moves:
                ends[step.test] = True
        return ends

    def _add(self, node: Node, after: int) -> int:
        """Add a node that leads to a step; returns the step that it begins with."""
        match node:
            case One(test):
                return self._step(_Step((after,), self._test(test), moves=True))
            case Ahead(test):
                return self._step(_Step((after,), self._test(test)))
            case Chain(parts):
                for part in reversed(parts):
                    after = self._add(part, after)
                return after
            case Choice(parts):
                return self._step(_Step(tuple([self._add(part, after) for part in parts])))
            case _:
                return self._repeated(node.part, node.least, node.most, after)

    def _repeated(self, part: Node, least: int, most: int | None, after: int) -> int:
        end = after
        if most is None:
            loop = self._step(_Step())
            again = self._add(part, loop)
            self._steps[loop] = _Step((again, end))
            after, least = (again, least - 1) if least else (loop, 0)
        else:
            for _ in range(most - least):
                after = self._step(_Step((self._add(part, after), end)))
        for _ in range(least):
            after = self._add(part, after)
        return after

    def _step(self, step: _Step) -> int:
        if len(self._steps) > _MOST_STEPS:
            raise UnknownExpression
        self._steps.append(step)
        return len(self._steps) - 1

    def _test(self, test: Test) -> int:
        if test not in self.tests:
            self.tests.append(test)
        return self.tests.index(test)


def _transitions(program: _Program, classes: Sequence[list[bool]]) -> NDArray[np.int32]:
    """Return the table of a program, int32 [states, classes + 1]; for each class the tests that it passes."""
    passes, width = (*classes, program.is_ahead()), len(classes) + 1
    states: dict[tuple[int, ...], int] = {(): 0, (program.first,): 1}
    rows = [[0] * width]
    for steps in _growing(states):
        row = list[int]()
        for passed in passes:
            after, matches = program.follow(steps, passed)
            row.append(states.setdefault(after, len(states)) * width << 1 | matches)
        rows.append(row)
    table = np.array(rows, np.int32)
    if (table[1] & 1).any():
        raise UnknownExpression  # which matches nothing at all
    return table


def _growing(states: dict[tuple[int, ...], int]) -> Iterator[tuple[int, ...]]:
    """Yield all states but the first, also those that are found meanwhile."""
    done = 1
    while done < len(states):
        if len(states) > _MOST_STATES:
            raise UnknownExpression
        yield list(states)[done]
        done += 1
