"""What a template is told besides the conversation: only what it reads, so that no setting is lost."""

import logging
from collections.abc import Mapping, Set

from rase_core.errors import InvalidParameter
from rase_core.errors.engine_error import shown

THINKS, EFFORT = "enable_thinking", "reasoning_effort"
_NO_EFFORT = "none"
_OTHER_NAMES: Mapping[str, str] = {THINKS: "thinking"}
"""By what else templates know a variable."""

_logger = logging.getLogger(__name__)


def told_variables(
    given: Mapping[str, object], read: Set[str], *, has_thoughts: bool, is_lenient: bool = False
) -> dict[str, object]:
    """Return variables by the names that a template reads.

    One that it does not read is left out where it asks for what happens anyway: thinking where the template
    `has_thoughts`, none where it has not. Any other raises InvalidParameter, or is logged when lenient.
    """
    told: dict[str, object] = {}
    lost: list[str] = []
    for name, value in given.items():
        known = _known_as(name, given, read)
        if known is not None:
            told[known] = value
        elif not _is_idle(name, value, given, has_thoughts=has_thoughts):
            lost.append(name)
    if lost and not is_lenient:
        expected = _expected(lost[0], read, has_thoughts)
        raise InvalidParameter(f"variables.{lost[0]}", given[lost[0]], expected)
    if lost:
        _logger.warning("variables that the chat template does not read were left out: %s", shown(lost))
    return told


def _known_as(name: str, given: Mapping[str, object], read: Set[str]) -> str | None:
    if name in read:
        return name
    other = _OTHER_NAMES.get(name)
    return other if other in read and other not in given else None


def _is_idle(name: str, value: object, given: Mapping[str, object], *, has_thoughts: bool) -> bool:
    """Whether a variable asks for nothing that would not be so without it."""
    if name == EFFORT and value == _NO_EFFORT:
        return not has_thoughts or given.get(THINKS) is False
    return value is None or (name == THINKS and value is has_thoughts)


def _expected(name: str, read: Set[str], has_thoughts: bool) -> str:
    if name == THINKS:
        always = "always lets the model think" if has_thoughts else "knows of no thinking"
        return f"{'thinking' if has_thoughts else 'no thinking'}, or nothing: the chat template {always}"
    names = f"it reads {', '.join(sorted(read))}" if read else "it reads none"
    return f"nothing: the chat template reads no such variable ({names})"
