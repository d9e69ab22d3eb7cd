"""Keywords that are not enforced, said in those that are."""

from collections.abc import Callable, Mapping
from itertools import chain, combinations, permutations, product
from math import perm
from typing import Any

from rase_models.constraints.schema.disjoint import are_disjoint, told_apart
from rase_models.constraints.schema.keywords import Schema
from rase_models.constraints.schema.negation import Inexpressible, Resolver, listed, negated, same_text

Rewrite = Callable[[dict[str, Any], str, Any], None]

_MOST_LISTS = 2000
_MOST_ITEMS = 32


def _add(schema: dict[str, Any], *more: Schema) -> None:
    schema["allOf"] = [*schema.get("allOf", ()), *more]


def _without_not(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    other = negated(schema[key], resolver)
    del schema[key]
    _add(schema, other)


def _without_if(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    condition, then, otherwise = schema[key], schema.get("then", True), schema.get("else", True)
    if then is True:
        ways = [condition, otherwise]
    else:
        ways = [{"allOf": [condition, then]}, _both(negated(condition, resolver), otherwise)]
    for name in (key, "then", "else"):
        schema.pop(name, None)
    if True not in ways:
        _add(schema, {"anyOf": ways})


def _both(one: Schema, other: Schema) -> Schema:
    return one if other is True else {"allOf": [one, other]}


def _dropped(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    del schema[key]


def _any_instead_of_one(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    """Let any of several schemas do, each without what those admit that it has something in common with."""
    schemas = [choice for choice in schema[key] if choice is not False]
    ways: list[Schema] = []
    for one, others in zip(schemas, _clashes(schemas, schema, resolver), strict=True):
        rest = [negated(schemas[j], resolver) for j in sorted(others)]
        ways.append({"allOf": [one, *rest]} if rest else one)
    del schema[key]
    _add(schema, {"anyOf": ways} if ways else False)


def _clashes(schemas: list[Schema], around: dict[str, Any], resolver: Resolver) -> list[set[int]]:
    """Return which others each schema may have something in common with that the one around them admits."""
    clashes: list[set[int]] = [set() for _ in schemas]
    types = {"type": around["type"]} if "type" in around else {}
    typed = [types | choice if isinstance(choice, dict) else choice for choice in schemas]
    told = told_apart(schemas, resolver) or told_apart(typed, resolver)
    others = [i for i in range(len(typed)) if i not in told]
    for i, j in chain(product(others, told), combinations(others, 2)):
        if not are_disjoint(typed[i], typed[j], resolver):
            clashes[i].add(j)
            clashes[j].add(i)
    return clashes


def _required_too(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    for name, names in schema.pop(key).items():
        _add(schema, _if_there(name, {"required": [name, *names]}))


def _schemas_too(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    for name, other in schema.pop(key).items():
        _add(schema, _if_there(name, {"allOf": [{"required": [name]}, other]}))


def _if_there(name: str, then: Schema) -> Schema:
    return {"anyOf": [then, {"properties": {name: False}}]}


def _named(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    """Say of properties what is said of their names."""
    names = schema[key]
    if names is True or names in ({}, {"type": "string"}):
        del schema[key]
        return
    if "patternProperties" in schema:
        raise Inexpressible
    allowed = _texts(names)
    value, properties = schema.get("additionalProperties", True), schema.get("properties", {})
    if allowed is not None:
        known = {name: properties.get(name, value) for name in allowed}
        schema["properties"] = {**{name: False for name in properties if name not in known}, **known}
        schema["additionalProperties"] = False
    elif properties:
        raise Inexpressible
    else:
        schema["patternProperties"] = {_pattern(names): value}
        schema["additionalProperties"] = False
    del schema[key]


def _texts(names: Schema) -> list[str] | None:
    """Return the texts that a schema admits, where they are so many."""
    if names is False:
        return []
    if isinstance(names, bool) or names.keys() - {"type", "enum", "const"}:
        return None
    values = listed(names)
    is_text = names.get("type", "string") == "string"
    return [value for value in values if isinstance(value, str)] if values is not None and is_text else None


def _pattern(names: Schema) -> str:
    """Return the pattern of the texts that a schema admits."""
    if isinstance(names, bool) or names.get("type", "string") != "string":
        raise Inexpressible
    if names.keys() <= {"type", "pattern"}:
        return str(names["pattern"])
    if names.keys() <= {"type", "minLength", "maxLength"}:
        return rf"^[\s\S]{{{names.get('minLength', 0)},{names.get('maxLength', '')}}}$"
    raise Inexpressible


def _one_at_some_place(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    """Say of each place in a short list that the item may stand there."""
    contained, least, most = schema[key], schema.get("minContains", 1), schema.get("maxContains")
    if least == 0 and most is None:
        _forget_contains(schema)
        return
    longest = schema.get("maxItems", _MOST_ITEMS + 1)
    if most is not None or least != 1 or longest > _MOST_ITEMS:
        raise Inexpressible
    ways: list[Schema] = [
        {"type": "array", "minItems": i + 1, "prefixItems": [*[True] * i, contained]} for i in range(longest)
    ]
    _forget_contains(schema)
    others = ["null", "boolean", "number", "string", "object"]
    _add(schema, {"anyOf": [*ways, {"type": others}]})


def _forget_contains(schema: dict[str, Any]) -> None:
    for key in ("contains", "minContains", "maxContains"):
        schema.pop(key, None)


def _all_different(schema: dict[str, Any], key: str, resolver: Resolver) -> None:
    """List the lists of different items, where there are few."""
    most = schema.get("maxItems")
    if schema[key] is False or (most is not None and most <= 1):
        del schema[key]
        return
    if "prefixItems" in schema:
        raise Inexpressible
    values = _values(schema.get("items", True), resolver)
    sizes = range(schema.get("minItems", 0), min(len(values), len(values) if most is None else most) + 1)
    lists = _lists(values, sizes)
    for name in (key, "items", "minItems", "maxItems"):
        schema.pop(name, None)
    others = ["null", "boolean", "number", "string", "object"]
    _add(schema, {"anyOf": [{"enum": lists}, {"type": others}]} if lists else {"type": others})


def _lists(values: list[object], sizes: range) -> list[list[object]]:
    """Return the lists of so many different values each; raises Inexpressible for too many of them."""
    total = 0
    for size in sizes:  # which stops before the numbers become long
        total += perm(len(values), size)
        if total > _MOST_LISTS:
            raise Inexpressible
    return [list(found) for size in sizes for found in permutations(values, size)]


def _values(schema: Schema, resolver: Resolver) -> list[object]:
    """Return the values that a schema admits, where it lists them."""
    if isinstance(schema, dict) and schema.keys() == {"$ref"}:
        return _values(resolver.resolve(schema["$ref"]), resolver)
    if isinstance(schema, bool) or schema.keys() - {"type", "enum", "const"}:
        raise Inexpressible
    if schema.get("type") == "boolean" and "enum" not in schema and "const" not in schema:
        return [True, False]
    values = listed(schema)
    if values is None or not _is_kept_to(values, schema.get("type")):
        raise Inexpressible
    return list({same_text(value): value for value in values}.values())


def _is_kept_to(values: list[object], kind: object) -> bool:
    """Whether values are of a type for certain."""
    return kind is None or (kind == "string" and all(isinstance(value, str) for value in values))


REWRITES: Mapping[str, Rewrite] = {
    "propertyNames": _named,
    "uniqueItems": _all_different,
    "contains": _one_at_some_place,
    "minContains": _dropped,
    "maxContains": _dropped,
    "dependentRequired": _required_too,
    "dependentSchemas": _schemas_too,
    "if": _without_if,
    "then": _dropped,
    "else": _dropped,
    "not": _without_not,
    "oneOf": _any_instead_of_one,
}
"""What takes a keyword out of a prepared schema, whose parts are prepared; raises Inexpressible."""

REASONS: Mapping[str, str] = {
    "uniqueItems": (
        f"items that differ can be enforced where the values listed for them (enum) make {_MOST_LISTS} lists "
        "at most, as six values do"
    ),
    "contains": f"an item can be demanded of lists whose maxItems is {_MOST_ITEMS} at most",
    "not": "what the schema admits has no opposite that can be enforced",
    "if": "the condition has no opposite that can be enforced",
    "oneOf": "the schemas may have something in common, and have no opposites that can be enforced",
    "propertyNames": "names can be enforced by pattern, length or enum where there are no patternProperties",
    "unevaluatedProperties": "it can be enforced beside properties, $ref and allOf",
    "unevaluatedItems": "it can be enforced beside prefixItems and items",
    "$dynamicRef": "references that change with their place cannot be enforced",
}
