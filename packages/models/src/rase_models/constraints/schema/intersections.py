"""Which texts several patterns of a schema are for together, and whether those can be looked at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.branching import ONE_BRANCH, Branches, excess_branches, with_search
from rase_models.constraints.reasons import TOO_LARGE
from rase_models.constraints.schema.document import Place, walked
from rase_models.constraints.schema.keywords import Schema
from rase_models.constraints.schema.negation import OneWay

_MOST_STEPS = 5000
_MOST_NAMES = 32
"""Patterns of one object: each is compared with each."""

_FORMATS = {"uri": 48, "ipv6": 24}
_FORMAT = 8
"""Branches of llguidance's expressions for formats."""

_WHY = f"with what else is said of the same text, {TOO_LARGE}"

Cell = Sequence[dict[str, Any]]
"""Schemas without choices that hold together."""


class _TooMany(Exception):
    """There are too many ways of choosing."""


Resolve = Callable[[str], Schema]
"""Returns what a reference refers to, True where that is not known."""

Find = Callable[[object], Place | None]
"""Returns where a schema stands, None where that is not known."""


def check_patterns(schemas: Sequence[Schema], resolve: Resolve, place_of: Find) -> None:
    """Refuse prepared schemas, of which some texts have too many patterns to meet, with keyword and place."""
    texts = _Patterns(place_of)
    nodes = list(_nodes(schemas))
    for node in nodes:
        texts.check_names([node])
    if texts.is_excess(nodes):
        try:
            _Walk(resolve, texts).check(schemas)
        except _TooMany:
            texts.check(nodes)


class _Patterns:
    """Judges the patterns that hold together."""

    def __init__(self, place_of: Find) -> None:
        self._place_of = place_of
        self._branches: dict[str, Branches] = {}

    def is_excess(self, cell: Cell) -> bool:
        """Whether all texts that schemas are about, as if they were one, would have too many patterns."""
        patterns = {node["pattern"] for node in cell if _is_branching(node)}
        formats = {node["format"] for node in cell if "format" in node}
        members = [*map(self._pattern, patterns), *map(_format, formats)]
        return len(members) > 1 and excess_branches(members)

    def check(self, cell: Cell) -> None:
        """Refuse schemas that hold together with too many patterns."""
        if self.is_excess(cell):
            raise self._refusal(next(filter(_is_branching, cell)), "pattern")

    def check_names(self, cell: Cell) -> None:
        """Refuse schemas that hold together with too many patterns for names: each pair is looked at."""
        named = {key: node for node in cell for key in node.get("patternProperties", ())}
        if len(named) > _MOST_NAMES:
            node = next(iter(named.values()))
            raise self._refusal(
                node, "patternProperties", f"it has more than {_MOST_NAMES} patterns for names"
            )
        for one, other in combinations(named, 2):
            if excess_branches((self._pattern(one), self._pattern(other))):
                raise self._refusal(named[one], "patternProperties")

    def _pattern(self, text: str) -> Branches:
        found = self._branches.get(text)
        if found is None:
            found = self._branches[text] = with_search(text)
        return found

    def _refusal(self, node: dict[str, Any], keyword: str, why: str = _WHY) -> UnenforceableFormat:
        return (self._place_of(node) or Place()).refuse(keyword, why)


class _Walk:
    """Goes through all schemas that hold together for one value."""

    def __init__(self, resolve: Resolve, texts: _Patterns) -> None:
        self._resolve, self._texts = resolve, texts
        self._seen: set[frozenset[int]] = set()
        self._kept: list[object] = []
        self._steps = 0
        self._choices: dict[tuple[int, ...], Schema] = {}

    def check(self, schemas: Sequence[Schema]) -> None:
        """Refuse schemas, each by itself, within which too many patterns come together."""
        waiting = [[schema] for schema in schemas]
        while waiting:
            group = [schema for schema in waiting.pop() if isinstance(schema, dict)]
            key = frozenset(map(id, group))
            if key in self._seen:
                continue
            self._seen.add(key)
            self._kept.append(group)  # so that no other one has its identity
            for cell in self._cells(group):
                self._texts.check(cell)
                if len(cell) > 1:
                    self._texts.check_names(cell)
                for inner in self._within(cell):
                    self._spend()
                    waiting.append(inner)

    def _spend(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooMany

    def _cells(self, group: Cell) -> Iterator[Cell]:
        """Yield what holds together in each way of choosing among `anyOf` and `oneOf`."""
        ways: list[_Way] = [_Way({}, list(group), [])]
        while ways:
            self._spend()
            way = ways.pop()
            self._gather(way)
            if way.choices:
                choice = way.choices.pop()
                ways += [_Way(dict(way.plain), [one], list(way.choices)) for one in choice]
            else:
                yield list(way.plain.values())

    def _gather(self, way: "_Way") -> None:
        """Add what holds together with schemas whatever is chosen."""
        while way.waiting:
            schema = way.waiting.pop()
            if not isinstance(schema, dict) or id(schema) in way.plain:
                continue
            way.plain[id(schema)] = schema
            way.waiting += schema.get("allOf", ())
            way.choices += [schema[key] for key in ("anyOf", "oneOf") if schema.get(key)]
            if "$ref" in schema:
                way.waiting.append(self._resolve(schema["$ref"]))

    def _within(self, cell: Cell) -> Iterator[list[Schema]]:
        """Yield the schemas that hold together for each value within an object or a list."""
        for name in _keys(cell, "properties"):
            yield [part for node in cell for part in self._of_name(node, name)]
        for key in _keys(cell, "patternProperties"):
            yield [
                node.get("patternProperties", {}).get(key, node.get("additionalProperties", True))
                for node in cell
            ]
        for keyword in ("additionalProperties", "items"):
            if any(keyword in node for node in cell):
                yield [node.get(keyword, True) for node in cell]
        for i in range(max((len(node.get("prefixItems", ())) for node in cell), default=0)):
            yield [_item(node, i) for node in cell]

    def _of_name(self, node: dict[str, Any], name: str) -> Iterator[Schema]:
        """Yield what an object's schema says of a property; one of its patterns at most has the name."""
        own = node.get("properties", {})
        rest = True if name in own else node.get("additionalProperties", True)
        if name in own:
            yield own[name]
        patterns = list(node.get("patternProperties", {}).values())
        yield self._one_of([rest, *patterns]) if patterns else rest

    def _one_of(self, schemas: list[Schema]) -> Schema:
        return self._choices.setdefault(tuple(map(id, schemas)), {"anyOf": schemas})


@dataclass
class _Way:
    """Schemas that hold together, by identity; those yet to be looked at; what is yet to be chosen from."""

    plain: dict[int, dict[str, Any]]
    waiting: list[Schema]
    choices: list[Sequence[Schema]]


def _is_branching(node: dict[str, Any]) -> bool:
    return "pattern" in node and not isinstance(node["pattern"], OneWay)


def _format(name: str) -> Branches:
    return [count * _FORMATS.get(name, _FORMAT) for count in ONE_BRANCH]


def _item(node: dict[str, Any], i: int) -> Schema:
    first = node.get("prefixItems", ())
    item: Schema = first[i] if i < len(first) else node.get("items", True)
    return item


def _keys(cell: Cell, keyword: str) -> list[str]:
    return list(dict.fromkeys(name for node in cell for name in node.get(keyword, ())))


def _nodes(schemas: Sequence[Schema]) -> Iterator[dict[str, Any]]:
    """Yield all schemas within prepared ones."""
    for schema in schemas:
        yield from (part for part, _ in walked(schema, Place()) if isinstance(part, dict))
