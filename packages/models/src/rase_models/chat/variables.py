"""What a template is told besides the conversation: only what it reads, so that no setting is lost."""

import logging
from collections.abc import Mapping, Sequence, Set

from rase_core.errors import InvalidParameter
from rase_core.errors.engine_error import shown

THINKS, EFFORT = "enable_thinking", "reasoning_effort"
_NO_EFFORT = "none"
_SWITCHES: Sequence[tuple[str, Mapping[bool, object]]] = (
    (THINKS, {True: True, False: False}),
    ("thinking", {True: True, False: False}),
    ("thinking_mode", {True: "enabled", False: "disabled"}),
    ("thinking_budget", {True: -1, False: 0}),
    ("reasoning", {True: True, False: False}),
)
"""The variables by which templates let models think or not, and their values for that; the first counts."""
_EFFORTS = (EFFORT, "thinking_effort")

_logger = logging.getLogger(__name__)


def told_variables(
    given: Mapping[str, object], read: Set[str], *, has_thoughts: bool | None, is_lenient: bool = False
) -> dict[str, object]:
    """Return variables by the names that a template reads.

    Whether to think is told by the template's own switch; an effort asks for thinking, and `none` for none.
    What is not read is left out where it asks for what happens anyway: thinking where the template
    `has_thoughts`, none where it has not. Any other raises InvalidParameter, or is logged when lenient;
    variables that contradict each other raise it always.
    """
    given = {
        name: value for name, value in given.items() if value is not None or name not in (THINKS, EFFORT)
    }
    told = {name: value for name, value in given.items() if name in read}
    lost = [name for name in given if name not in read and name not in (THINKS, EFFORT)]
    lost += _lost_switch(given, read, told, has_thoughts) + _lost_effort(given, read, told)
    lost = [name for name in lost if given[name] is not None]
    if lost and not is_lenient:
        expected = _expected(lost[0], given[lost[0]], read, has_thoughts)
        raise InvalidParameter(f"variables.{lost[0]}", given[lost[0]], expected)
    if lost:
        _logger.warning("variables that the chat template does not read were left out: %s", shown(lost))
    return told


def _lost_switch(
    given: Mapping[str, object], read: Set[str], told: dict[str, object], has_thoughts: bool | None
) -> list[str]:
    """Tell the template whether to think; return by what name that was asked for where it has no way to."""
    said = _said(given)
    name = THINKS if THINKS in given else EFFORT
    if name not in given or said.keys() & told.keys() - {EFFORT}:
        return []
    wish = said.get(name)
    switch = next((entry for entry in _SWITCHES if entry[0] in read), None)
    if switch is not None and wish is not None and switch[0] not in told:
        told[switch[0]] = switch[1][wish]
        return []
    is_asked = name == THINKS or wish is False
    is_told = THINKS in told
    return [name] if is_asked and not is_told and wish is not has_thoughts else []


def _said(given: Mapping[str, object]) -> dict[str, bool]:
    """Return which variables say to think, and which not to; raises InvalidParameter where they disagree."""
    said = {
        name: wish
        for name, values in _SWITCHES
        for wish, value in values.items()
        if type(given.get(name)) is type(value) and given.get(name) == value
    }
    if EFFORT in given:
        said[EFFORT] = given[EFFORT] != _NO_EFFORT
    if len(set(said.values())) > 1:
        name = next(name for name in (EFFORT, THINKS, *said) if name in said)
        raise _contradiction(given, name, next(other for other in said if said[other] is not said[name]))
    return said


def _contradiction(given: Mapping[str, object], name: str, other: str) -> InvalidParameter:
    return InvalidParameter(f"variables.{name}", given[name], f"nothing that contradicts {other}")


def _lost_effort(given: Mapping[str, object], read: Set[str], told: dict[str, object]) -> list[str]:
    """Tell the template of an effort; return its name where the template has none."""
    effort = given.get(EFFORT)
    name = next((name for name in _EFFORTS if name in read), None)
    if effort is None or name == EFFORT or effort == _NO_EFFORT:
        return []
    if name is None:
        return [EFFORT]
    if told.setdefault(name, effort) != effort:
        raise _contradiction(given, EFFORT, name)
    return []


def _expected(name: str, value: object, read: Set[str], has_thoughts: bool | None) -> str:
    names = f"it reads {', '.join(sorted(read))}" if read else "it reads none"
    if (name, value) in ((THINKS, False), (EFFORT, _NO_EFFORT)):
        return f"thinking, or nothing: the chat template has no switch against it ({names})"
    if name != THINKS:
        return f"nothing: the chat template reads no such variable ({names})"
    if has_thoughts is False:
        return "no thinking, or nothing: the chat template knows of none"
    return f"nothing: the chat template has no switch for it ({names})"
