"""In how many ways at once a regular expression may go on, which is what makes intersections dear."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

MOST_BRANCHES = 40_000
"""Of an intersection at one place: llguidance looks at each in one go that nothing ends, at 10 µs each."""

_ASCII = 128
_SIZE = _ASCII + 1
"""How many kinds of characters are told apart: each one of ASCII, and all others together."""

_ALL = (1 << _SIZE) - 1
_OTHERS = 1 << _ASCII
_LETTERS = sum(1 << code for code in range(_ASCII) if chr(code).isalpha())
_WEIGHTS = (*[1] * _ASCII, 8)
"""Characters beyond ASCII begin with many different bytes."""

_SPREAD = 8
"""A class of many characters is one branch and not one for each."""

Branches = Sequence[int]
"""How often each kind of character may come next at most, by its place in the expression."""

ONE_BRANCH: Branches = (1,) * _SIZE

_PARTS = re.compile(
    r"(?P<skip>\(\?(?:P?<\w*>|[a-zA-Z-]*:?)|[()|*+?^$]|\{\d*,?\d*\}|\\[bBAzZ])"
    r"|(?P<class>\[)"
    r"|\\x\{(?P<hex>[0-9a-fA-F]{1,8})\}|\\x(?P<byte>[0-9a-fA-F]{2})|\\u(?P<unit>[0-9a-fA-F]{4})"
    r"|\\(?P<control>[nrtfv])"
    r"|(?P<set>\.|\\(?:[pP](?:\{[^}]*\}|.)|[a-zA-Z]))"
    r"|\\?(?P<literal>.)",
    re.DOTALL,
)
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
_CLASS = re.compile(r"(?:[^\\\[\]]|\\.)*\]", re.DOTALL)
_SIMPLE_CLASS = re.compile(
    r"(\^?)((?:[^\\\[\]&~-]|\\[^a-zA-Z0-9])(?:-(?:[^\\\[\]&~-]|\\[^a-zA-Z0-9]))?)+\]", re.DOTALL
)
_RANGE = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


def branches_of(pattern: str, *, is_caseless: bool = False) -> Branches:
    """Return the branches of an expression in Rust's syntax; at least as many as it has."""
    counts = Counter(_masks(pattern))
    is_caseless = is_caseless or "(?" in pattern
    found = [0] * _SIZE
    for mask, count in counts.items():
        for kind in _kinds(_caseless(mask) if is_caseless else mask):
            found[kind] += count
    return found


def with_search(pattern: str) -> Branches:
    """Return the branches of an expression that may match anywhere unless it is anchored."""
    ends = 2 - pattern.startswith("^") - (pattern.endswith("$") and not pattern.endswith("\\$"))
    ends = 2 if "|" in pattern else ends
    return [count + ends for count in branches_of(pattern)]


def excess_branches(members: Sequence[Branches]) -> bool:
    """Whether the intersection of expressions may go on in more ways at once than can be looked at."""
    most: int = prod(max(1, *member) for member in members)
    if most * sum(_WEIGHTS) // _SPREAD <= MOST_BRANCHES:
        return False
    ways: list[int] = [prod(max(1, count) for count in kind) for kind in zip(*members, strict=True)]
    total: int = sum(way * weight for way, weight in zip(ways, _WEIGHTS, strict=True))
    return max(*ways, total // _SPREAD) > MOST_BRANCHES


def sum_of(parts: Iterable[Branches]) -> Branches:
    """Return the branches of expressions one after the other, or one of which is met."""
    return [sum(counts) for counts in zip((0,) * _SIZE, *parts, strict=False)] or ONE_BRANCH


def product_of(members: Iterable[Branches]) -> Branches:
    """Return the branches of an intersection, no more than are too many."""
    most = MOST_BRANCHES + 1
    return [min(most, prod(max(1, count) for count in kind)) for kind in zip(*members, strict=True)]


def _masks(pattern: str) -> Iterable[int]:
    """Yield which kinds of characters each place of an expression admits, a bit for each."""
    at = 0
    while at < len(pattern):
        found = _PARTS.match(pattern, at)
        if found is None:
            return
        at = found.end()
        if found.lastgroup == "class":
            end = _class_end(pattern, at)
            yield _class_mask(pattern[at:end])
            at = end
        elif found.lastgroup != "skip":
            yield _part_mask(found)


def _part_mask(found: "re.Match[str]") -> int:
    kind = found.lastgroup
    if kind is None or kind == "set":
        return _ALL
    text = found[kind]
    if kind == "control":
        return _bit(_CONTROLS[text])
    return _bit(ord(text) if kind == "literal" else int(text, 16))


def _class_end(pattern: str, at: int) -> int:
    """Return where a class ends that begins before a place, whatever classes are within it."""
    at += pattern.startswith("^", at)
    at += pattern.startswith("]", at)
    depth = 1
    while depth and at < len(pattern):
        depth += {"[": 1, "]": -1}.get(pattern[at], 0)
        at += 2 if pattern[at] == "\\" else 1
    return at


def _class_mask(text: str) -> int:
    """Return what a class admits, without its bracket; all where that is not plain to see."""
    if _SIMPLE_CLASS.fullmatch(text) is None:
        return _ALL
    is_negated = text.startswith("^")
    mask = 0
    for first, last in _RANGE.findall(text[is_negated:-1]):
        low, high = ord(first), ord(last or first)
        mask |= sum(1 << code for code in range(low, min(high, _ASCII - 1) + 1))
        mask |= _OTHERS if high >= _ASCII else 0
    return (~mask & _ALL) | _OTHERS if is_negated else mask


def _bit(code: int) -> int:
    return 1 << min(code, _ASCII)


def _caseless(mask: int) -> int:
    return _ALL if mask & _OTHERS else mask | _LETTERS | _OTHERS if mask & _LETTERS else mask


def _kinds(mask: int) -> Iterable[int]:
    return (kind for kind in range(_SIZE) if mask >> kind & 1)
