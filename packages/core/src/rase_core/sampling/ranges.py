"""What values a parameter may have: one class per kind of value, each with its check."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from rase_core.errors import InvalidGenerationConfig

_MAX_TOKEN = 2**31 - 1
_MAX_WORD = 4096
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""No text that a model writes has any."""


class Range(Protocol):
    """The values that a parameter may have."""

    def check(self, name: str, value: object) -> object:
        """Return the value in its normal form; raises InvalidGenerationConfig with the range when outside."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def check(self, name: str, value: object) -> bool:
        """Return the value if it is a bool."""
        if not isinstance(value, bool):
            raise InvalidGenerationConfig(name, value, "true or false")
        return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number; true and false are none."""

    least: int
    most: int

    def check(self, name: str, value: object) -> int:
        """Return the value if it is an int in range."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise InvalidGenerationConfig(name, value, f"a whole number of {self.least} to {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is not NaN; true and false are none."""

    least: float
    most: float

    def check(self, name: str, value: object) -> float:
        """Return the value as a float if it is an int or float in range."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.least <= value <= self.most:  # type: ignore[operator]
            raise InvalidGenerationConfig(name, value, f"a number of {self.least:g} to {self.most:g}")
        return float(value)  # type: ignore[arg-type]


_TOKEN = Integer(0, _MAX_TOKEN)


@dataclass(frozen=True, slots=True)
class TokenSet:
    """Any number of token ids."""

    def check(self, name: str, value: object) -> frozenset[int]:
        """Return the ids of a list, tuple or set."""
        if not isinstance(value, Sequence | Set) or isinstance(value, str | bytes):
            raise InvalidGenerationConfig(name, value, "a list of token ids")
        return frozenset(_TOKEN.check(name, token) for token in value)


@dataclass(frozen=True, slots=True)
class TokenSequences:
    """Any number of non-empty sequences of token ids."""

    def check(self, name: str, value: object) -> tuple[tuple[int, ...], ...]:
        """Return the sequences of a list or tuple of such."""
        if not isinstance(value, list | tuple) or not all(
            isinstance(word, list | tuple) and word for word in value
        ):
            raise InvalidGenerationConfig(name, value, "a list of non-empty lists of token ids")
        return tuple(tuple(_TOKEN.check(name, token) for token in word) for word in value)


@dataclass(frozen=True, slots=True)
class TokenBias:
    """A number for each of some token ids."""

    values: Number

    def check(self, name: str, value: object) -> dict[int, float]:
        """Return the numbers of a mapping; its keys may be decimal strings, as in JSON and TOML."""
        if not isinstance(value, Mapping):
            raise InvalidGenerationConfig(name, value, "a table of token ids and numbers")
        return {self._token(name, token): self.values.check(name, bias) for token, bias in value.items()}

    def _token(self, name: str, key: object) -> int:
        is_decimal = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 10
        return _TOKEN.check(name, int(key) if is_decimal else key)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Words:
    """Any number of strings, none of them empty or very long."""

    def check(self, name: str, value: object) -> tuple[str, ...]:
        """Return the strings of a list or tuple."""
        if not isinstance(value, list | tuple) or not all(_is_word(word) for word in value):
            raise InvalidGenerationConfig(
                name, value, f"a list of strings of 1 to {_MAX_WORD} characters, without lone surrogates"
            )
        return tuple(value)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_WORD and not _LONE_SURROGATE.search(value)
