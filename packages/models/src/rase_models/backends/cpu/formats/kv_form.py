"""The forms in which a block of the cache holds the keys and values of one head.

Keys are transposed, [key_length][positions], so that the scores of 16 positions are computed in the lanes of
one vector; values are [positions][value_length]. Both lengths are multiples of 16.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, I64, LANES, Value, constant
from rase_models.kv_type import KvType

BLOCK_VECTORS = BLOCK_TOKENS // LANES
"""Vectors that the positions of a block take."""

Scaled: TypeAlias = tuple[Value, Value | None]
"""Float32 values, and a number that they are to be multiplied by, unless that is 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """One head's key or value, float32 at an address, and the place in the block that it goes to."""

    address: Value
    length: Value
    slot: Value


class KvForm(ABC):
    """How one head's keys and values are kept."""

    kv_type: KvType

    @abstractmethod
    def keys_nbytes(self, length: int) -> int:
        """Return the bytes of the keys of a block."""

    @abstractmethod
    def values_nbytes(self, length: int) -> int:
        """Return the bytes of the values of a block."""

    @abstractmethod
    def score(
        self, code: Code, keys: Value, length: Value, ahead: Value, queries: Sequence[Value]
    ) -> list[list[Value]]:
        """Emit q . k of the block's positions for queries at addresses; returns the variables of the sums.

        `ahead` is where the keys or values are that are read next.
        """

    @abstractmethod
    def value(
        self, code: Code, values: Value, length: Value, position: Value, column: Value, vectors: int
    ) -> list[Scaled]:
        """Load vectors of columns, a multiple of 16 or, several at once, of 64, of a position's values."""

    @abstractmethod
    def value_address(
        self, code: Code, values: Value, length: Value, position: Value, column: Value
    ) -> Value:
        """Return where a column of a position's values is."""

    @abstractmethod
    def store_key(self, code: Code, keys: Value, key: Row) -> None:
        """Emit the storing of a key."""

    @abstractmethod
    def store_value(self, code: Code, values: Value, value: Row) -> None:
        """Emit the storing of a value."""


def zero_sums(code: Code, queries: int) -> list[list[Value]]:
    """Make variables for the sums of queries over a block's positions."""
    return [[code.variable(constant(F32X16, 0.0)) for _ in range(BLOCK_VECTORS)] for _ in range(queries)]


def add_products(
    code: Code, queries: Sequence[Value], index: Value, k: Sequence[Value], sums: list[list[Value]]
) -> None:
    """Add the products of an element of the queries, float32 at addresses, and of the keys."""
    b = code.builder
    for row, row_sums in zip(queries, sums, strict=True):
        q = code.load_splat(code.at(row, code.times(index, 4)), F32)
        for vector, total in zip(k, row_sums, strict=True):
            b.store(code.fma(q, vector, b.load(total)), total)


def prefetch_lines(code: Code, address: Value, nbytes: int) -> None:
    """Ask for the cache lines of so many bytes."""
    for offset in range(0, nbytes, 64):
        code.prefetch(code.at(address, offset), code.instruction_set.kv_hint)


def vectors_of(code: Code, length: Value) -> Value:
    """Return how many vectors a length takes."""
    return code.builder.lshr(length, constant(I64, 4))


def clamped(code: Code, x: Value, largest: float) -> Value:
    """Keep float32, scalar or vector, within a range, and make a number of what is none."""
    return code.minimum(code.maximum(x, constant(x.type, -largest)), constant(x.type, largest))
