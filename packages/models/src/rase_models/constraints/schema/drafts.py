"""Older drafts of JSON Schema in the words of 2020-12."""

from typing import Any


def modernised(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of any draft from 4 on as one of 2020-12; the parts within it stay as they are."""
    given = dict(schema)
    if isinstance(given.get("items"), list):
        given["prefixItems"] = given.pop("items")
        if "additionalItems" in given:
            given["items"] = given.pop("additionalItems")
    if "$recursiveRef" in given:
        given["$dynamicRef"] = given.pop("$recursiveRef")
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(given.get(exclusive), bool) and given.pop(exclusive) and limit in given:
            given[exclusive] = given.pop(limit)
    if isinstance(given.get("dependencies"), dict):
        _split(given)
    return given


def _split(given: dict[str, Any]) -> None:
    """Divide what draft 7 had in one keyword."""
    for name, value in given.pop("dependencies").items():
        key = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
        given[key] = {**given.get(key, {}), name: value}
