"""Pydantic's findings, retold as one error in OpenAI's words."""

import json
import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rase_api.errors import (
    InvalidType,
    InvalidValue,
    MissingParameter,
    RequestError,
    UnknownParameter,
    UnsupportedParameter,
    clipped,
)

JSON_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}

EXPECTED: Mapping[str, str] = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "a boolean",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}

PHRASES: Mapping[str, str] = {
    "too_short": "it must not be empty",
    "too_long": "it may have at most {max_length} entries",
    "string_unicode": "a key is not valid Unicode",
    "literal_error": "expected {expected}",
    "less_than_equal": "expected {le} or less",
    "less_than": "expected less than {lt}",
    "greater_than_equal": "expected {ge} or more",
    "greater_than": "expected more than {gt}",
    "finite_number": "expected a finite number",
}
"""What is said of a kind of finding, with names of its context."""

_LITERAL, _CLASS = re.compile(r"literal\[.*\]"), re.compile(r"[A-Z][A-Za-z]+")
"""What Pydantic puts into a place for one of several types of a value; the latter not at its end."""

# What is told first when several things are wrong: a refused feature explains the rest.
URGENCY = ("unsupported_parameter", "extra_forbidden", "missing")


def request_error(failure: ValidationError) -> RequestError:
    """Retell the most telling of the findings; all unknown parameters are named together."""
    findings = failure.errors(include_url=False)
    for kind in URGENCY:
        chosen = [finding for finding in findings if finding["type"] == kind]
        if chosen:
            return TELLERS[kind](chosen)
    return _invalid(findings[0])


def path_of(location: Sequence[int | str]) -> str:
    """Write the place of a value as in `messages[0].content`."""
    path = ""
    for index, part in enumerate(location, 1):
        if isinstance(part, str) and _is_way(part, is_last=index == len(location)):
            continue
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return clipped(path)


def _is_way(part: str, *, is_last: bool) -> bool:
    return bool(_LITERAL.fullmatch(part) or (not is_last and _CLASS.fullmatch(part)))


def names_of(locations: Sequence[Sequence[int | str]]) -> str:
    """Write several places."""
    return clipped(", ".join(repr(path_of(location)) for location in locations))


def _unsupported(findings: list[ErrorDetails]) -> RequestError:
    path = path_of(findings[0]["loc"])
    allowed = findings[0].get("ctx", {}).get("allowed", [])
    hint = f" Allowed: {', '.join(map(json.dumps, allowed))}." if allowed else ""
    return UnsupportedParameter(
        f"Unsupported parameter: '{path}' asks for what this server does not do.{hint}", path
    )


def _unknown(findings: list[ErrorDetails]) -> RequestError:
    paths = [path_of(finding["loc"]) for finding in findings]
    plural = "s" if len(paths) > 1 else ""
    return UnknownParameter(f"Unknown parameter{plural}: {', '.join(map(repr, paths))}.", paths[0])


def _missing(findings: list[ErrorDetails]) -> RequestError:
    path = path_of(findings[0]["loc"])
    return MissingParameter(f"Missing required parameter: '{path}'.", path)


def _invalid(finding: ErrorDetails) -> RequestError:
    path, kind = path_of(finding["loc"]), finding["type"]
    if kind in EXPECTED:
        found = JSON_TYPES.get(type(finding["input"]), "something else")
        return InvalidType(
            f"Invalid type for '{path}': expected {EXPECTED[kind]}, but got {found} instead.", path
        )
    error = InvalidType if kind.endswith("_type") else InvalidValue
    phrase = PHRASES[kind].format(**finding.get("ctx", {})) if kind in PHRASES else finding["msg"]
    return error(f"Invalid value for '{path}': {phrase}.", path)


TELLERS: Mapping[str, Callable[[list[ErrorDetails]], RequestError]] = {
    "unsupported_parameter": _unsupported,
    "extra_forbidden": _unknown,
    "missing": _missing,
}
