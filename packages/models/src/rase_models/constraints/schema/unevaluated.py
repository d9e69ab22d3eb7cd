"""`unevaluatedProperties` and `unevaluatedItems`, said of what is evaluated for certain."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from rase_models.constraints.schema.document import Place, SchemaDocument
from rase_models.constraints.schema.drafts import modernised
from rase_models.constraints.schema.negation import NARROW, Inexpressible

_MOST_WAYS = 64

Parts = list[Any]


class _Preparation(Protocol):
    document: SchemaDocument


@dataclass
class _Seen:
    """What the schemas that are met evaluate: properties, patterns, so many items.

    `is_all` is everything, and what `is_uncertain` may be more than that; `been` is where references led.
    """

    names: dict[str, bool] = field(default_factory=dict)
    patterns: dict[str, bool] = field(default_factory=dict)
    items: int = 0
    is_all: bool = False
    is_uncertain: bool = False
    been: set[str] = field(default_factory=set)


def close_unevaluated(schema: dict[str, Any], key: str, preparation: _Preparation, place: Place) -> None:
    """Say of additional properties, or items, what is said of those that are not evaluated.

    Where that depends on which of several schemas is met, each is closed in its own way, so that what only
    two of them together evaluate is not admitted. Raises Inexpressible for too many ways.
    """
    value = schema.pop(key)
    if value is True:
        return
    looks = _Looks(key, preparation.document, place)
    ways = [{"allOf": [*parts, *looks.closing(value, [schema, *parts])]} for parts in _ways(schema)]
    is_narrow = looks.is_uncertain or len(schema.get("anyOf", ())) > 1
    for name in ("anyOf", "if", "then", "else", "dependentSchemas"):
        schema.pop(name, None)
    closed = {"anyOf": ways} if len(ways) > 1 else ways[0]
    schema["allOf"] = [*schema.get("allOf", ()), closed]
    if is_narrow:
        schema[NARROW] = True


def _ways(schema: Mapping[str, Any]) -> Iterator[Parts]:
    """Yield the schemas that are met in each way of meeting them."""
    choices: list[list[Parts]] = [
        [[part] for part in schema[key]] for key in ("anyOf", "oneOf") if key in schema
    ]
    if "if" in schema:
        condition = schema["if"]
        met: Parts = [condition, schema.get("then", True)]
        choices.append([met, [{"not": condition}, schema.get("else", True)]])
    for name, part in schema.get("dependentSchemas", {}).items():
        there = {"type": "object", "required": [name]}
        choices.append([[there, part], [{"properties": {name: False}}]])
    count = 1
    for ways in choices:
        count *= len(ways)
    if count > _MOST_WAYS:
        raise Inexpressible
    yield from ([part for parts in way for part in parts] for way in product(*choices))


class _Looks:
    """Looks for what schemas evaluate; `is_uncertain` once that was more than can be told."""

    def __init__(self, key: str, document: SchemaDocument, place: Place) -> None:
        self._is_items, self._document, self._place = key == "unevaluatedItems", document, place
        self.is_uncertain = False

    def closing(self, value: Any, parts: Parts) -> Parts:
        """Return the schema of what these, the first of which is the outer one, do not evaluate."""
        seen = _Seen()
        for i, part in enumerate(parts):
            self._look(part, self._place, seen, is_outer=i == 0)
        if seen.is_all:
            return []
        self.is_uncertain |= seen.is_uncertain
        if self._is_items:
            return [{"prefixItems": [True] * seen.items, "items": value}]
        names = {"properties": seen.names, "patternProperties": seen.patterns}
        return [{**names, "additionalProperties": value}]

    def _look(self, schema: Any, place: Place, seen: _Seen, *, is_outer: bool = False) -> None:
        """Note what a schema that is met evaluates for certain."""
        if not isinstance(schema, dict):
            return
        place = place.within(schema)
        schema = modernised(schema)
        place.check(schema)
        seen.is_uncertain |= any(
            key in schema for key in (_OUTER if is_outer else _UNCERTAIN)[self._is_items]
        )
        seen.is_all |= any(key in schema for key in _REST[self._is_items])
        seen.names |= dict.fromkeys(schema.get("properties", {}), True)
        seen.patterns |= dict.fromkeys(schema.get("patternProperties", {}), True)
        seen.items = max(seen.items, len(schema.get("prefixItems", ())))
        for i, part in enumerate(schema.get("allOf", ())):
            self._look(part, place.at("allOf", i), seen)
        if "$ref" in schema:
            target, found = self._document.resolve(schema["$ref"], place)
            if found.pointer not in seen.been:
                seen.been.add(found.pointer)
                self._look(target, found, seen)


# By whether it is about items.
_REST = (("additionalProperties", "unevaluatedProperties"), ("items", "unevaluatedItems"))


_OUTER = (("$dynamicRef",), ("$dynamicRef", "contains"))
_DECIDING = ("$dynamicRef", "anyOf", "oneOf", "if", "dependentSchemas")
_UNCERTAIN = (_DECIDING, (*_DECIDING, "contains"))
