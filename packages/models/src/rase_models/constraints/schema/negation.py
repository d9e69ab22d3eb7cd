"""The schema of all that another one does not admit, where keywords can say that."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rase_models.constraints.schema.keywords import TYPES, Schema, is_number

_DEEPEST = 32
_MOST_CHARACTERS = 256
_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~")


class Inexpressible(Exception):
    """No keywords say it; with the reason, where that is another one than its keyword's."""


class Narrowed(Inexpressible):
    """A schema admits less than it should, so that nothing can be concluded from what it refuses."""


NARROW = "x-narrow"
"""Marks schemas that admit less than they should."""


class OneWay(str):
    """A pattern by which a text goes on in one way at most, however many of them it is to meet."""


class Resolver(Protocol):
    """Knows what references in prepared schemas refer to, and how long one may look through them."""

    def resolve(self, reference: str) -> Schema:
        """Return it; raises Inexpressible."""

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises Inexpressible after too many."""


def negated(schema: Schema, resolver: Resolver, depth: int = 0) -> Schema:
    """Return the schema of what another does not admit; raises Inexpressible."""
    resolver.spend()
    if isinstance(schema, bool):
        return not schema
    if depth > _DEEPEST:
        raise Inexpressible
    rest = {key: value for key, value in schema.items() if key not in _NOTES}
    ways: list[Schema] = []
    for key, value in rest.items():
        way = NEGATIONS.get(key)
        if way is None:
            raise Inexpressible
        ways += way(value, lambda inner: negated(inner, resolver, depth + 1), resolver)
    ways = [way for way in ways if way is not False]
    if not ways:
        return False
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


_NOTES = frozenset({"$defs"})

Negate = Callable[[Schema], Schema]
Way = Callable[[Any, Negate, Resolver], Sequence[Schema]]


def _not_type(value: Any, negate: Negate, resolver: Resolver) -> Sequence[Schema]:
    names = {value} if isinstance(value, str) else set(value)
    if "integer" in names and "number" not in names:
        raise Inexpressible
    others = [name for name in TYPES if name not in names]
    return [{"type": others}] if others else [False]


def _not_values(values: Sequence[object]) -> Sequence[Schema]:
    kinds = {kind_of(value) for value in values}
    if kinds & {"array", "object"}:
        raise Inexpressible
    ways: list[Schema] = [{"type": [name for name in TYPES if name not in kinds]}]
    texts = [value for value in values if isinstance(value, str)]
    numbers = sorted({value for value in values if is_number(value)})
    flags = [value for value in values if isinstance(value, bool)]
    if texts:
        ways.append({"type": "string", "pattern": OneWay(f"^(?:{other_texts(texts)})$")})
    if len(flags) == 1:
        ways.append({"enum": [not flags[0]]})
    return [*ways, *_between(numbers)]


def _between(numbers: Sequence[Any]) -> Iterator[Schema]:
    """Yield the gaps around numbers."""
    if any(abs(number) > 2**53 or int(number) != number for number in numbers):
        raise Inexpressible
    limits = [int(number) for number in numbers]
    for low, high in zip([None, *limits], [*limits, None], strict=True):
        gap: dict[str, Any] = {"type": "number"} if limits else {}
        gap |= {} if low is None else {"exclusiveMinimum": low}
        gap |= {} if high is None else {"exclusiveMaximum": high}
        if gap:
            yield gap


def kind_of(value: object) -> str:
    """Return the type of a value in JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"


def other_texts(texts: Sequence[str]) -> str:
    """Return the pattern of all whole texts but these; raises Inexpressible for long ones."""
    if sum(map(len, texts)) > _MOST_CHARACTERS:
        raise Inexpressible
    is_listed = "" in texts
    nexts: dict[str, list[str]] = {}
    for text in texts:
        if text:
            nexts.setdefault(text[0], []).append(text[1:])
    if not nexts:
        return r"[\s\S]+" if is_listed else r"[\s\S]*"
    ways = [] if is_listed else [""]
    ways.append(f"[^{''.join(map(literal, nexts))}][\\s\\S]*")
    ways += [f"{literal(first)}(?:{other_texts(rest)})" for first, rest in nexts.items()]
    return "|".join(ways)


def literal(text: str) -> str:
    """Return the pattern of a text as it is."""
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)


def _not_properties(value: Any, negate: Negate, resolver: Resolver) -> Sequence[Schema]:
    ways: list[Schema] = []
    for name, schema in value.items():
        other = negate(schema)
        if other is not False:
            ways.append({"type": "object", "properties": {name: other}, "required": [name]})
    return ways or [False]


def _limit(kind: str, key: str, step: int = 0, least: int | None = None) -> Way:
    def way(value: Any, negate: Negate, resolver: Resolver) -> Sequence[Schema]:
        if least is not None and value + step < least:
            return [False]
        return [{"type": kind, key: value + step}]

    return way


NEGATIONS: Mapping[str, Way] = {
    "type": _not_type,
    "enum": lambda values, negate, resolver: _not_values(values),
    "const": lambda value, negate, resolver: _not_values([value]),
    "required": lambda names, negate, resolver: (
        [{"type": "object", "properties": {name: False}} for name in names] or [False]
    ),
    "properties": _not_properties,
    "anyOf": lambda schemas, negate, resolver: [{"allOf": [negate(schema) for schema in schemas]}],
    "allOf": lambda schemas, negate, resolver: [negate(schema) for schema in schemas],
    "$ref": lambda reference, negate, resolver: [negate(resolver.resolve(reference))],
    "minimum": _limit("number", "exclusiveMaximum"),
    "maximum": _limit("number", "exclusiveMinimum"),
    "exclusiveMinimum": _limit("number", "maximum"),
    "exclusiveMaximum": _limit("number", "minimum"),
    "minLength": _limit("string", "maxLength", -1, 0),
    "maxLength": _limit("string", "minLength", 1),
    "minItems": _limit("array", "maxItems", -1, 0),
    "maxItems": _limit("array", "minItems", 1),
    "minProperties": _limit("object", "maxProperties", -1, 0),
    "maxProperties": _limit("object", "minProperties", 1),
}
"""By keyword: the schemas one of which admits what the keyword does not."""


def listed(schema: dict[str, Any]) -> list[object] | None:
    """Return the values that `const` and `enum` admit, None where a schema has neither."""
    values: list[object] | None = schema.get("enum")
    if "const" not in schema:
        return values
    const = schema["const"]
    if values is None or same_text(const) in map(same_text, values):
        return [const]
    return []


def same_text(value: object) -> str:
    """Return a text that values have in common if JSON Schema holds them to be equal."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value
