"""What the arguments of a call may be, by tables that the owners of the calls keep."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from threading import TIMEOUT_MAX
from types import NoneType

from rase_core.errors import InvalidParameter

Fits = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that an argument may have: in words, and as a test."""

    expected: str
    fits: Fits


Kinds = Mapping[str, Kind]


def check_arguments(kinds: Kinds, **given: object) -> None:
    """Raise InvalidParameter for the first argument that is not of its kind."""
    for name, value in given.items():
        kind = kinds[name]
        if not kind.fits(value):
            raise InvalidParameter(name, value, kind.expected)


def instance(expected: str, *types: type) -> Kind:
    """Return the kind of objects of these types."""
    return Kind(expected, lambda value: isinstance(value, types))


def whole(least: int, unit: str) -> Kind:
    """Return the kind of whole numbers from `least` on, or None; `unit` says of what."""
    return Kind(
        f"a whole number of {unit}, {least} or more, or None",
        lambda value: (
            value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least)
        ),
    )


def _may_pass(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value is None
    return 0 <= value <= TIMEOUT_MAX


def _may_last(value: object) -> bool:
    return _may_pass(value) or value == inf


def _may_call(value: object) -> bool:
    return value is None or callable(value)


SECONDS = Kind(f"a number of seconds, 0 to {TIMEOUT_MAX:.0f}, or None", _may_pass)
PATIENCE = Kind(f"a number of seconds, 0 to {TIMEOUT_MAX:.0f} or infinity, or None", _may_last)
CALLBACK = Kind("a function or None", _may_call)
PATH = instance("a path", str, os.PathLike)
MAYBE_PATH = instance("a path or None", str, os.PathLike, NoneType)
FLAG = instance("True or False", bool)
TEXT = instance("a text", str)
MAYBE_TEXT = instance("a text or None", str, NoneType)
MAYBE_MAPPING = instance("a mapping or None", Mapping, NoneType)
