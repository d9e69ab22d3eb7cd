"""The metadata of one architecture: `block_count` stands for `llama.block_count`."""

from collections.abc import Sequence
from typing import TypeVar

from rase_core.errors import InvalidGguf

from rase_models.gguf import GgufFile, MetadataValue
from rase_models.gguf.metadata import describe_value

MAX_COUNT = 1 << 24
"""The most that a width or a number of things may be; the largest models stay far below."""

LEAST_NUMBER, MOST_NUMBER = 1e-30, 1e30
"""What float32, in which backends compute, holds with room for products."""

N = TypeVar("N", int, float)

_SHOWN = 80
"""Characters of a value in an error, since a file may hold very long ones."""

_A_NUMBER = f"a number from {LEAST_NUMBER:g} to {MOST_NUMBER:g}"
_ABSENT = frozenset({0, -1, (1 << 32) - 1, (1 << 64) - 1})


class ArchitectureKeys:
    """Reads the keys under the architecture's prefix.

    Writers put 0, -1 or the largest unsigned number where a model has no such thing, so these count as a
    missing key, except of what is `stated`. All errors are InvalidGguf naming the key, what was expected and
    what was found.
    """

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.architecture = file.architecture

    def error(self, key: str, expected: str, found: object) -> InvalidGguf:
        """Return the error for a value that cannot be used."""
        return self._error(self._full(key), expected, found)

    def count(self, key: str, default: int | None = None, *, most: int = MAX_COUNT) -> int:
        """Return a whole number from 1 to `most`; required when there is no default."""
        value = self._file.integer(self._full(key), 0)
        if value in _ABSENT:
            return self._default(key, default, f"a number from 1 to {most}")
        return self._checked_count(key, value, most)

    def stated_count(self, key: str, default: int | None = None, *, most: int = MAX_COUNT) -> int:
        """Return a whole number from 1 to `most`, where none stands for nothing: models all have this."""
        value = self._file.integer(self._full(key), None)
        if value is None:
            return self._default(key, default, f"a number from 1 to {most}")
        return self._checked_count(key, value, most)

    def states_none(self, key: str) -> bool:
        """Tell whether the key is there and stands for nothing."""
        return self._file.integer(self._full(key), None) in _ABSENT

    def counts(
        self, key: str, layers: int, default: Sequence[int] | None = None, *, most: int = MAX_COUNT
    ) -> tuple[int, ...]:
        """Return a number for each layer, from an array, where it may be 0, or from one number for all."""
        if not self.is_array(key):
            value = self.count(key, 0 if default is not None else None, most=most)
            return (value,) * layers if value or default is None else tuple(default)
        values = self._file.integers(self._full(key))
        if len(values) != layers:
            raise self.error(key, f"one number or {layers} of them", f"{len(values)} of them")
        return tuple(value and self._checked_count(key, value, most) for value in values)

    def require(self, key: str, value: int) -> int:
        """Return a number that must not be 0 here, though it may be elsewhere."""
        return value if value else self._default(key, None, f"a number from 1 to {MAX_COUNT}")

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number from LEAST_NUMBER to MOST_NUMBER; required when there is no default."""
        value = self._file.number(self._full(key), 0.0)
        if value in (0.0, -1.0):
            return self._default(key, default, _A_NUMBER)
        return self._checked_number(key, value)

    def stated_number(self, key: str, default: float) -> float:
        """Return a number from LEAST_NUMBER to MOST_NUMBER, where none stands for nothing."""
        value = self._file.number(self._full(key), None)
        return default if value is None else self._checked_number(key, value)

    def negative_number(self, key: str) -> float:
        """Return a number less than 0, of the same sizes, which is required."""
        value = self._file.number(self._full(key), 0.0)
        if not LEAST_NUMBER <= -value <= MOST_NUMBER:
            raise self.error(key, f"a number less than 0, at least -{MOST_NUMBER:g}", value)
        return value

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """Return an array of so many numbers, of which none need be finite."""
        values = self._file.numbers(self._full(key))
        if len(values) != count:
            raise self.error(key, f"{count} numbers", f"{len(values)} of them")
        return values

    def common_numbers(self, key: str, count: int) -> tuple[float, ...]:
        """Return numbers, one for all or an array, of a key that has no architecture's prefix."""
        value = self._file.metadata.get(key)
        single = value is None or isinstance(value, str | int | float)
        values = (self._file.number(key),) * count if single else self._file.numbers(key)
        if len(values) != count:
            raise self._error(key, f"{count} numbers", f"{len(values)} of them")
        for value in values:
            if not abs(value) <= MOST_NUMBER:
                raise self._error(key, f"numbers from -{MOST_NUMBER:g} to {MOST_NUMBER:g}", value)
        return values

    def boolean(self, key: str, default: bool) -> bool:
        """Return a bool."""
        return self._file.boolean(self._full(key), default)

    def string(self, key: str, default: str) -> str:
        """Return a string."""
        return self._file.string(self._full(key), default)

    def flags(self, key: str) -> tuple[bool, ...]:
        """Return an array of bools, also one that was written as numbers."""
        value = self._value(key)
        if isinstance(value, str | tuple | int | float | None):
            found = "no such key" if value is None else describe_value(value)
            raise self.error(key, "an array of bools", found)
        return tuple(bool(element) for element in value.tolist())

    def layer_flags(self, key: str, layers: int, others: int = 0) -> tuple[bool, ...]:
        """Return a bool for each layer, from an array, at whose end so many others may have some too."""
        flags = self.flags(key)
        if len(flags) not in (layers, layers + others):
            expected = f"{layers} or {layers + others} bools" if others else f"{layers} bools"
            raise self.error(key, expected, f"{len(flags)} of them")
        return flags[:layers]

    def is_array(self, key: str) -> bool:
        """Tell whether the key holds an array."""
        value = self._value(key)
        return value is not None and not isinstance(value, str | int | float)

    def _value(self, key: str) -> MetadataValue | None:
        return self._file.metadata.get(self._full(key))

    def _full(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def _error(self, key: str, expected: str, found: object) -> InvalidGguf:
        shown = str(found)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        return InvalidGguf(self._file.path, f"metadata {key!r}: expected {expected}, found {shown}")

    def _default(self, key: str, default: N | None, expected: str) -> N:
        if default is None:
            value = self._value(key)
            raise self.error(key, expected, "no such key" if value is None else value)
        return default

    def _checked_number(self, key: str, value: float) -> float:
        if not LEAST_NUMBER <= value <= MOST_NUMBER:
            raise self.error(key, _A_NUMBER, value)
        return value

    def _checked_count(self, key: str, value: int, most: int) -> int:
        if not 1 <= value <= most:
            raise self.error(key, f"a number from 1 to {most}", value)
        return value
