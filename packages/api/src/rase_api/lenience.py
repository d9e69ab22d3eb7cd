"""What a lenient server leaves out of a request: parameters that it does not know, or cannot follow."""

import copy
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

UNKNOWN, UNSUPPORTED = "extra_forbidden", "unsupported_parameter"

Location = Sequence[int | str]


def left_out(failure: ValidationError) -> list[Location]:
    """Find what may be left out; content that is not supported may not, or the prompt would lose it."""
    return [finding["loc"] for finding in failure.errors(include_url=False) if _may_go(finding)]


def without(body: Mapping[str, object], locations: Sequence[Location]) -> dict[str, object] | None:
    """Return a copy of a body without what is at these places; None where they are not the body's own."""
    kept = copy.deepcopy(dict(body))
    return kept if all(_remove(kept, location) for location in locations) else None


def _may_go(finding: ErrorDetails) -> bool:
    is_content = any(isinstance(part, int) for part in finding["loc"])
    return finding["type"] == UNKNOWN or (finding["type"] == UNSUPPORTED and not is_content)


def _remove(value: object, location: Location) -> bool:
    for part in location[:-1]:
        value = _part(value, part)
    if not isinstance(value, dict) or location[-1] not in value:
        return False
    del value[location[-1]]
    return True


def _part(value: object, part: int | str) -> object:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None
