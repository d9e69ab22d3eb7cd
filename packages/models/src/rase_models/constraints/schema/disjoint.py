"""Whether two schemas have nothing in common, as far as that is easily told."""

from collections.abc import Sequence
from typing import Any

from rase_models.constraints.schema.keywords import TYPES, Schema
from rase_models.constraints.schema.negation import NARROW, Narrowed, Resolver, kind_of, listed, same_text

_DEEPEST = 16


def are_disjoint(one: Schema, other: Schema, resolver: Resolver, depth: int = 0) -> bool:
    """Whether it is certain that no value is of both; the schemas are prepared ones. Raises Inexpressible."""
    resolver.spend()
    if one is False or other is False:
        return True
    if one is True or other is True or depth > _DEEPEST:
        return False
    if NARROW in one or NARROW in other:
        raise Narrowed
    for schema, rest in ((one, other), (other, one)):
        if any(are_disjoint(part, rest, resolver, depth + 1) for part in _conjuncts(schema, resolver)):
            return True
        choices = schema.get("anyOf")
        if choices and all(are_disjoint(choice, rest, resolver, depth + 1) for choice in choices):
            return True
    return _differ(one, other, resolver, depth)


def told_apart(schemas: Sequence[Schema], resolver: Resolver) -> frozenset[int]:
    """Return the places of the objects among prepared schemas; none where no property tells them apart.

    They all require one that has no value in two of them. Takes time as the schemas are many, not as their
    pairs are. Raises Inexpressible.
    """
    found = {i: _referred(schema, resolver) for i, schema in enumerate(schemas)}
    objects = {i: one for i, one in found.items() if isinstance(one, dict) and _is_plain_object(one)}
    if not objects:
        return frozenset()
    names = frozenset.intersection(*(frozenset(one.get("required", ())) for one in objects.values()))
    is_told = any(_tells_apart(name, list(objects.values()), resolver) for name in names)
    return frozenset(objects) if is_told else frozenset()


def _is_plain_object(schema: dict[str, Any]) -> bool:
    return NARROW not in schema and _types(schema) == {"object"}


def _referred(schema: Schema, resolver: Resolver) -> Schema:
    """Return what a schema that is a reference and nothing else stands for."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
            break
        resolver.spend()
        schema = resolver.resolve(schema["$ref"])
    return schema


def _tells_apart(name: str, objects: Sequence[dict[str, Any]], resolver: Resolver) -> bool:
    seen: set[str] = set()
    for one in objects:
        resolver.spend()
        kind = _property(one, name)
        values = _values(kind) if isinstance(kind, dict) and NARROW not in kind else None
        if values is None or values & seen:
            return False
        seen |= values
    return True


def _conjuncts(schema: dict[str, Any], resolver: Resolver) -> list[Schema]:
    return [*schema.get("allOf", ()), *([resolver.resolve(schema["$ref"])] if "$ref" in schema else ())]


def _differ(one: dict[str, Any], other: dict[str, Any], resolver: Resolver, depth: int) -> bool:
    common = _types(one) & _types(other)
    if not common:
        return True
    values, others = _values(one), _values(other)
    if values is not None and others is not None:
        return not values & others
    if common != {"object"}:
        return False
    return (
        _lacks(one, other)
        or _lacks(other, one)
        or any(
            are_disjoint(_property(one, name), _property(other, name), resolver, depth + 1)
            for name in {*one.get("required", ()), *other.get("required", ())}
        )
    )


def _property(schema: dict[str, Any], name: str) -> Schema:
    found: Schema = schema.get("properties", {}).get(name, True)
    return found


def _lacks(closed: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether an object of the other needs a property that one of the closed schema cannot have."""
    if closed.get("additionalProperties", True) is not False or closed.get("patternProperties"):
        return False
    return any(name not in closed.get("properties", {}) for name in other.get("required", ()))


def _types(schema: dict[str, Any]) -> frozenset[str]:
    values = listed(schema)
    given = schema.get("type", TYPES)
    names = {given} if isinstance(given, str) else set(given)
    found = frozenset("number" if name == "integer" else name for name in names)
    return found if values is None else found & {kind_of(value) for value in values}


def _values(schema: dict[str, Any]) -> frozenset[str] | None:
    values = listed(schema)
    if values is None:
        return frozenset(("null",)) if schema.get("type") == "null" else None
    return frozenset(same_text(value) for value in values)
