"""Prepared schemas with exact numbers, said in what llguidance makes no mistakes with."""

from collections.abc import Callable
from functools import reduce
from itertools import product
from math import prod
from typing import Any

from rase_models.constraints.schema.budget import Exhausted
from rase_models.constraints.schema.keywords import LIMITS, MANY, NAMED, ONE, TYPES, Schema
from rase_models.constraints.schema.negation import Resolver
from rase_models.constraints.schema.number_set import NumberSet
from rase_models.constraints.schema.number_spelling import remainders, spelt

_MOST_SETS = 256

_STEPS_OF_MULTIPLES = 100
"""Of the budget, where other steps are tried that have the multiples in common."""

_KINDS = frozenset(("number", "integer"))


class ExactNumbers:
    """The numbers in the schemas of one document, prepared; `resolver` knows what references refer to."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._limited: dict[int, bool] = {}
        self._known: dict[int, list[NumberSet] | None] = {}

    def of(self, schema: Schema) -> Schema:
        """Return a schema that admits the same; raises Inexpressible for what cannot be told exactly."""
        if isinstance(schema, bool):
            return schema
        made = _with_parts(schema, self.of)
        if not self._is_mixed(schema):
            return made
        try:
            sets = self._sets(schema)
        except _Endless:
            return made
        self._resolver.spend(sum(map(remainders, sets)))
        return _either(made, [self._spelt(numbers) for numbers in sets])

    def _spelt(self, numbers: NumberSet) -> Schema:
        has_step = numbers.values is None and numbers.step is not None and numbers.step.denominator > 1
        self._resolver.spend(_STEPS_OF_MULTIPLES if has_step else numbers.size)
        return spelt(numbers)

    def _is_mixed(self, schema: dict[str, Any]) -> bool:
        """Whether the numbers that a schema admits are limited by itself, or by several of its parts."""
        if any(key in schema for key in LIMITS):
            return bool(_numbers_of(schema))
        parts = [[part] for part in schema.get("allOf", ())]
        parts += [schema[key] for key in ("anyOf",) if key in schema]
        parts += [[self._resolver.resolve(schema["$ref"])] if "$ref" in schema else []]
        limiting = sum(any(map(self._is_limited, part)) for part in parts)
        own = "enum" in schema or "const" in schema or _numbers_of(schema) == {"integer"}
        return limiting > 0 and limiting + own > 1

    def _is_limited(self, schema: Schema) -> bool:
        """Whether a schema limits numbers; looked for once, since every schema around one asks."""
        if isinstance(schema, bool):
            return False
        found = self._limited.get(id(schema))
        if found is None:
            self._limited[id(schema)] = False  # where it refers to itself
            found = self._limited[id(schema)] = self._limits(schema)
        return found

    def _limits(self, schema: dict[str, Any]) -> bool:
        if any(key in schema for key in LIMITS):
            return True
        referred = [self._resolver.resolve(schema["$ref"])] if "$ref" in schema else []
        return any(map(self._is_limited, (*referred, *schema.get("allOf", ()), *schema.get("anyOf", ()))))

    def _sets(self, schema: Schema) -> list[NumberSet]:
        """Return sets of numbers that are together those that a schema admits.

        They are found once, since every schema around one asks.
        """
        if isinstance(schema, bool):
            return [NumberSet()] if schema else []
        if id(schema) not in self._known:
            self._known[id(schema)] = None  # where it refers to itself, or raises this
            self._known[id(schema)] = self._sets_in(schema)
        found = self._known[id(schema)]
        if found is None:
            raise _Endless
        return found

    def _sets_in(self, schema: dict[str, Any]) -> list[NumberSet]:
        self._resolver.spend(1 + len(schema.get("enum", ())))
        if "oneOf" in schema:
            raise _Endless
        if not _numbers_of(schema):
            return []
        parts = [[NumberSet.of(schema)], *map(self._sets, schema.get("allOf", ()))]
        if "anyOf" in schema:
            parts.append([numbers for choice in schema["anyOf"] for numbers in self._sets(choice)])
        if "$ref" in schema:
            parts.append(self._sets(self._resolver.resolve(schema["$ref"])))
        return self._met(parts)

    def _met(self, parts: list[list[NumberSet]]) -> list[NumberSet]:
        """Return the sets of the numbers that are in one set of each part."""
        if not all(parts):
            return []
        self._resolver.spend(sum(part[0].size for part in parts if len(part) == 1))
        alone = reduce(NumberSet.meet, (part[0] for part in parts if len(part) == 1))
        several = [part for part in parts if len(part) > 1]
        count = prod(map(len, several))
        if count > _MOST_SETS:
            raise Exhausted
        self._resolver.spend(count * (alone.size + sum(max(one.size for one in part) for part in several)))
        return [reduce(NumberSet.meet, chosen, alone) for chosen in product(*several)]


class _Endless(Exception):
    """What numbers a schema admits is not told by sets."""


def _numbers_of(schema: dict[str, Any]) -> set[str]:
    """Return which of the two types of numbers a schema names; both are there where it names none."""
    kinds = schema.get("type", TYPES)
    return {kinds} & _KINDS if isinstance(kinds, str) else {*kinds} & _KINDS


def _either(schema: dict[str, Any], numbers: list[Schema]) -> Schema:
    """Return what a schema admits but for numbers, or one of these."""
    kinds = schema.get("type", TYPES)
    others = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in _KINDS]
    ways: list[Schema] = [way for way in numbers if way is not False]
    if others:
        rest = {key: value for key, value in schema.items() if key not in LIMITS}
        ways.insert(0, rest | {"type": others})
    if len(ways) == 1:
        return ways[0]
    return {"anyOf": ways} if ways else False


def _with_parts(schema: dict[str, Any], make: Callable[[Schema], Schema]) -> dict[str, Any]:
    """Return a schema with other schemas within it."""
    made = dict(schema)
    for key in made.keys() & {*ONE}:
        made[key] = make(made[key])
    for key in made.keys() & {*MANY}:
        made[key] = [make(part) for part in made[key]]
    for key in made.keys() & {*NAMED}:
        made[key] = {name: make(part) for name, part in made[key].items()}
    return made
