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
    r"(?P<open>\((?:\?(?:P?<\w*>|[a-zA-Z-]*:?))?)|(?P<close>\))(?:\{(?P<least>\d*)(?P<most>,\d*)?\})?"
    r"|(?P<again>\{(?P<few>\d*)(?P<many>,\d*)?\})|(?P<skip>[|*+?^$]|\\[bBAzZ])"
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
    is_caseless = is_caseless or "(?" in pattern
    found = [0] * _SIZE
    for mask, count in _masks(pattern).items():
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


def _masks(pattern: str) -> Counter[int]:
    """Return which kinds of characters the places of an expression admit, a bit for each, and how often."""
    groups = [_Group()]
    at = 0
    while found := _PARTS.match(pattern, at):
        at = found.end()
        if found["open"]:
            groups.append(_Group())
        elif found["close"]:
            _close(groups, _times(found["least"], found["most"]))
        elif found["again"]:
            groups[-1].repeat(_times(found["few"], found["many"]))
        elif found["class"]:
            end = _class_end(pattern, at)
            groups[-1].add(_class_mask(pattern[at:end]))
            at = end
        elif not found["skip"]:
            groups[-1].add(_part_mask(found))
    while len(groups) > 1:
        _close(groups, 1)
    return groups[0].places


class _Group:
    """The places of a group by what they admit: as they are written, and with all their repetitions.

    Those count where the group is repeated itself: each time that may be begun at another place.
    """

    def __init__(self) -> None:
        self.places: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self._last = 0

    def add(self, mask: int) -> None:
        """Add a place."""
        self.places[mask] += 1
        self.repeated[mask] += 1
        self._last = mask

    def repeat(self, times: int) -> None:
        """Count the last place so often."""
        if self._last:
            self.repeated[self._last] += times - 1

    def close_into(self, outer: "_Group", times: int) -> None:
        """Add the group, which comes so often, to the one around it."""
        is_one = self.repeated.total() == 1
        for mask, count in self.repeated.items():
            here = count * times if times > 1 and not is_one else self.places[mask]
            outer.places[mask] = min(MOST_BRANCHES, outer.places[mask] + here)
            outer.repeated[mask] = min(MOST_BRANCHES, outer.repeated[mask] + count * times)


def _close(groups: list[_Group], times: int) -> None:
    inner = groups.pop()
    if not groups:
        groups.append(_Group())
    inner.close_into(groups[-1], times)


def _times(least: str | None, most: str | None) -> int:
    """Return how often something is repeated, as far as that is counted."""
    counts = (least, (most or "").removeprefix(","))
    return min(MOST_BRANCHES, max(1, *(int(count[:9]) for count in counts if count), 1))


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
