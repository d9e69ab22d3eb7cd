"""A schema as a document: its parts by place, and what its references mean."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self
from urllib.parse import unquote, urldefrag, urljoin

from rase_core.errors import UnenforceableFormat
from rase_core.json_text import json_words

from rase_models.constraints.schema.keywords import CHECKS, DEFINITIONS, MANY, NAMED, ONE

_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # Python makes no number of some thousand digits


@dataclass(frozen=True, slots=True)
class Place:
    """Where a schema stands: the JSON pointer from the root, and the URI that references are relative to."""

    pointer: str = "#"
    base: str = ""

    def at(self, *steps: str | int) -> Self:
        """Return a place further in."""
        more = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
        return type(self)(self.pointer + more, self.base)

    def within(self, schema: object) -> Self:
        """Return the place with the base that the schema there has."""
        identity = schema.get("$id") if isinstance(schema, dict) else None
        if not isinstance(identity, str) or identity.startswith("#"):
            return self
        return type(self)(self.pointer, urldefrag(urljoin(self.base, identity)).url)

    def check(self, schema: dict[str, Any]) -> None:
        """Refuse values that keywords of the schema here cannot have."""
        for key, value in schema.items():
            if key in CHECKS and not CHECKS[key][0](value):
                raise self.refuse(key, f"expected {CHECKS[key][1]}, found {json_words(value)}"[:300])

    def refuse(self, keyword: str, why: str) -> UnenforceableFormat:
        """Return the error of a keyword of the schema here."""
        return UnenforceableFormat("json_schema", f"{keyword!r} at {self.pointer}: {why}")


class SchemaDocument:
    """A whole schema. Finds its parts by reference."""

    def __init__(self, root: dict[str, Any] | bool) -> None:
        self.root = root
        self._named: dict[str, tuple[Any, Place]] = {"": (root, Place())}
        for schema, place in walked(root, Place()):
            if isinstance(schema, dict):
                self._add_names(schema, place)

    @cached_property
    def is_one(self) -> bool:
        """Whether no part of it is a document of its own."""
        return all("#" in name or name in ("", Place().within(self.root).base) for name in self._named)

    def resolve(self, reference: str, place: Place) -> tuple[Any, Place]:
        """Return what a reference within a place refers to, and where that stands.

        Raises UnenforceableFormat where there is nothing.
        """
        base, fragment = urldefrag(
            place.base + reference if reference.startswith("#") else urljoin(place.base, reference)
        )
        found = self._named.get(f"{base}#{fragment}") if fragment else None
        found = found or self._pointed(base, unquote(fragment))
        if found is None:
            raise place.refuse("$ref", f"the schema has nothing at {reference[:200]!r}")
        return found

    def _add_names(self, schema: dict[str, Any], place: Place) -> None:
        base = place.within(schema).base
        if isinstance(schema.get("$id"), str):
            self._named.setdefault(base, (schema, place))
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._named.setdefault(f"{base}#{schema[key]}", (schema, place))

    def _pointed(self, base: str, fragment: str) -> tuple[Any, Place] | None:
        found = self._named.get(base)
        if found is None or (fragment and not fragment.startswith("/")):
            return None
        value, place = found
        for step in fragment.split("/")[1:]:
            key, place = step.replace("~1", "/").replace("~0", "~"), place.within(value)
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
            place = place.at(key)
        return value, place


def children(schema: object, place: Place) -> Iterator[tuple[Any, Place]]:
    """Yield the schemas right within one, and where they stand."""
    if not isinstance(schema, dict):
        return
    for key in ONE:
        if key in schema and not isinstance(schema[key], list):
            yield schema[key], place.at(key)
    for key in (*MANY, "items"):
        if isinstance(schema.get(key), list):
            yield from ((item, place.at(key, i)) for i, item in enumerate(schema[key]))
    for key in (*NAMED, *DEFINITIONS):
        if isinstance(schema.get(key), dict):
            yield from ((value, place.at(key, name)) for name, value in schema[key].items())


def walked(schema: object, place: Place) -> Iterator[tuple[Any, Place]]:
    """Yield a schema and all within it; they do not stand upon each other, so that any depth is fine."""
    waiting = [(schema, place)]
    while waiting:
        schema, place = waiting.pop()
        yield schema, place
        waiting += children(schema, place.within(schema))
