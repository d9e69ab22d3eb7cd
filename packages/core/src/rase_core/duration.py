"""How long something lasts, as people and programs write it: `300`, `"5m"`, `"1h30m"`, `-1` for ever."""

import math
import re

from rase_core.errors import InvalidParameter

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
_MOST_TEXT = 64
_MOST_SECONDS = 1e9
"""Some thirty years: more than that is as good as for ever, and beyond what clocks and timers take."""


def seconds_of(name: str, value: object) -> float | None:
    """Return the seconds that a number of them or a text stands for; None for ever, as negative ones do.

    Texts are numbers, too, or in Go's form: `5m`, `1h30m`, `500ms`. Raises InvalidParameter, with the name.
    """
    seconds = _seconds(value)
    if seconds is None or math.isnan(seconds):
        raise InvalidParameter(name, value, "seconds, or a duration such as '5m', negative for ever")
    return seconds if 0 <= seconds <= _MOST_SECONDS else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(min(max(value, -1), _MOST_SECONDS + 1))
    text = value.strip() if isinstance(value, str) and len(value) <= _MOST_TEXT else ""
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(match[2]))
    return -total if match[1] == "-" else total
