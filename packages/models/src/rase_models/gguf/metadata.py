"""The metadata of a GGUF file: its values, and getters that say what they expected."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import InvalidGguf

NumberArray = NDArray[np.integer] | NDArray[np.floating] | NDArray[np.bool_]
MetadataValue = int | float | bool | str | tuple[str, ...] | NumberArray
"""A scalar, a tuple for an array of strings, a read-only numpy array for an array of numbers or bools.

Bytes of a string that are not UTF-8 become lone surrogates (`surrogateescape`), because a vocabulary's pieces
may be any bytes; `TypedMetadata.string` refuses them.
"""

D = TypeVar("D")


class _Required:
    """The default of a key that must be there."""


REQUIRED: Final = _Required()


class TypedMetadata:
    """Getters over `metadata` that raise InvalidGguf naming the key, the expected type and what was found.

    A key that is missing is an error unless a default is given.
    """

    path: Path
    metadata: Mapping[str, MetadataValue]

    def integer(self, key: str, default: D | _Required = REQUIRED) -> int | D:
        """Return the integer under a key."""
        return self._get(key, "an integer", _integer, default)

    def number(self, key: str, default: D | _Required = REQUIRED) -> float | D:
        """Return the integer or float under a key, as float."""
        return self._get(key, "a number", _number, default)

    def boolean(self, key: str, default: D | _Required = REQUIRED) -> bool | D:
        """Return the bool under a key."""
        return self._get(key, "a bool", _boolean, default)

    def string(self, key: str, default: D | _Required = REQUIRED) -> str | D:
        """Return the string under a key; it must be UTF-8."""
        return self._get(key, "a UTF-8 string", _string, default)

    def strings(self, key: str, default: D | _Required = REQUIRED) -> tuple[str, ...] | D:
        """Return the array of strings under a key; bytes that are not UTF-8 are lone surrogates."""
        return self._get(key, "an array of strings", _strings, default)

    def integers(self, key: str, default: D | _Required = REQUIRED) -> tuple[int, ...] | D:
        """Return the array of integers under a key."""
        return self._get(key, "an array of integers", _integers, default)

    def numbers(self, key: str, default: D | _Required = REQUIRED) -> tuple[float, ...] | D:
        """Return the array of integers or floats under a key, as floats."""
        return self._get(key, "an array of numbers", _numbers, default)

    def booleans(self, key: str, default: D | _Required = REQUIRED) -> tuple[bool, ...] | D:
        """Return the array of bools under a key."""
        return self._get(key, "an array of bools", _booleans, default)

    def _get(
        self, key: str, expected: str, convert: Callable[[MetadataValue], D | None], default: object
    ) -> D:
        if key not in self.metadata:
            if default is REQUIRED:
                raise InvalidGguf(self.path, f"metadata {key!r}: expected {expected}, but the key is missing")
            return cast(D, default)
        value = convert(self.metadata[key])
        if value is None:
            found = describe_value(self.metadata[key])
            raise InvalidGguf(self.path, f"metadata {key!r}: expected {expected}, found {found}")
        return value


def describe_value(value: MetadataValue) -> str:
    """Say what a value is, in a few words: `the string 'llama'`, `an array of 3 float32`."""
    if isinstance(value, tuple):
        return f"an array of {len(value)} strings"
    if isinstance(value, np.ndarray):
        return f"an array of {value.size} {value.dtype.name}"
    shown = repr(value)
    return f"the {type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def _integer(value: MetadataValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: MetadataValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: MetadataValue) -> bool | None:
    return value if isinstance(value, bool) else None


def _string(value: MetadataValue) -> str | None:
    if not isinstance(value, str):
        return None
    escaped = any("\udc80" <= character <= "\udcff" for character in value) if not value.isascii() else False
    return None if escaped else value


def _strings(value: MetadataValue) -> tuple[str, ...] | None:
    return value if isinstance(value, tuple) else None


def _integers(value: MetadataValue) -> tuple[int, ...] | None:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) and value.dtype.kind in "iu" else None


def _numbers(value: MetadataValue) -> tuple[float, ...] | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        return None
    return tuple(value.astype(np.float64).tolist())


def _booleans(value: MetadataValue) -> tuple[bool, ...] | None:
    return tuple(value.tolist()) if isinstance(value, np.ndarray) and value.dtype.kind == "b" else None
