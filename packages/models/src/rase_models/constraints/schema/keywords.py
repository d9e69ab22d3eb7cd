"""The keywords of JSON Schema: where schemas stand, and what each may have for a value."""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

Schema = dict[str, Any] | bool
Check = tuple[Callable[[object], bool], str]

MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords whose value is a list of schemas."""

ONE = (
    "additionalProperties",
    "items",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords whose value is a schema."""

NAMED = ("properties", "patternProperties", "dependentSchemas")
"""Keywords whose value has schemas by name."""

DEFINITIONS = ("$defs", "definitions")

COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

ENFORCED = frozenset(
    (
        *(*LIMITS, "type", "enum", "const", "pattern", "format", "required", "properties"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        *(
            "patternProperties",
            "additionalProperties",
            "items",
            "prefixItems",
            "allOf",
            "anyOf",
            "oneOf",
            "x-narrow",
        ),
    )
)
"""The keywords that llguidance knows of, besides `$ref`, and a mark of ours that it overlooks."""

TYPES = ("null", "boolean", "number", "string", "array", "object")
_TYPE_NAMES = frozenset((*TYPES, "integer"))


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number in JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether a value is a whole number that is not negative; 2.0 is one."""
    return is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_type(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and all(isinstance(n, str) and n in _TYPE_NAMES for n in names)


def _is_dependencies(value: object) -> bool:
    return isinstance(value, dict) and all(_is_texts(names) for names in value.values())


MOST = 2**63 - 1
"""llguidance takes whole numbers beyond it for this one, which is harmless but for the least of a range."""

_LEAST: Check = (lambda value: is_number(value) and value <= MOST, f"a number up to {MOST}")
_GREATEST: Check = (lambda value: is_number(value) and value >= -MOST, f"a number from {-MOST} up")
_DIVISOR: Check = (lambda value: is_number(value) and value > 0, "a number above 0")
_COUNT: Check = (is_count, "a whole number from 0 up")
_TEXT: Check = (lambda value: isinstance(value, str), "a string")
_LIST: Check = (lambda value: isinstance(value, list), "a list")
_OBJECT: Check = (lambda value: isinstance(value, dict), "an object")
_FLAG: Check = (lambda value: isinstance(value, bool), "true or false")

CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum"), _LEAST),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), _GREATEST),
    "multipleOf": _DIVISOR,
    **dict.fromkeys(COUNTS, _COUNT),
    **dict.fromkeys(MANY, _LIST),
    **dict.fromkeys((*NAMED, *DEFINITIONS, "dependencies"), _OBJECT),
    **dict.fromkeys(("pattern", "format", "$ref", "$dynamicRef"), _TEXT),
    "type": (_is_type, f"one of {', '.join(sorted(_TYPE_NAMES))}, or a list of these"),
    "enum": _LIST,
    "required": (_is_texts, "a list of strings"),
    "dependentRequired": (_is_dependencies, "an object of lists of strings"),
    "uniqueItems": _FLAG,
}
"""Which values a keyword may have, and how to say that."""
