"""Keys and values as float16 or float32."""

from collections.abc import Sequence

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, I64, LANES, Value, constant
from rase_models.backends.cpu.formats.kv_form import (
    BLOCK_VECTORS,
    KvForm,
    Row,
    Scaled,
    add_products,
    clamped,
    prefetch_lines,
    vectors_of,
    zero_sums,
)
from rase_models.kv_type import KvType


class FloatKv(KvForm):
    """Float16 or float32.

    Larger values than `largest` are stored as that: an infinity would spoil rows that do not even see it
    (0 * inf).
    """

    def __init__(self, kv_type: KvType, nbytes: int, largest: float) -> None:
        self.kv_type, self._nbytes, self._largest = kv_type, nbytes, largest

    def keys_nbytes(self, length: int) -> int:
        """Return the bytes of the keys of a block."""
        return self._nbytes * BLOCK_TOKENS * length

    def values_nbytes(self, length: int) -> int:
        """Return the bytes of the values of a block."""
        return self._nbytes * BLOCK_TOKENS * length

    def score(
        self, code: Code, keys: Value, length: Value, ahead: Value, queries: Sequence[Value]
    ) -> list[list[Value]]:
        """Add up products, one element of the keys after the other."""
        sums = zero_sums(code, len(queries))
        line = self._nbytes * BLOCK_TOKENS
        with code.loop(length) as index:
            prefetch_lines(code, code.at(ahead, code.times(index, line)), line)
            at = code.at(keys, code.times(index, line))
            k = [self._load(code, code.at(at, self._nbytes * LANES * j)) for j in range(BLOCK_VECTORS)]
            add_products(code, queries, index, k, sums)
        return sums

    def value(
        self, code: Code, values: Value, length: Value, position: Value, column: Value, vectors: int
    ) -> list[Scaled]:
        """Load values as they are."""
        at = self.value_address(code, values, length, position, column)
        return [(self._load(code, code.at(at, self._nbytes * LANES * j)), None) for j in range(vectors)]

    def value_address(
        self, code: Code, values: Value, length: Value, position: Value, column: Value
    ) -> Value:
        """Return where a column of a position's values is."""
        b = code.builder
        return code.at(values, code.times(b.add(b.mul(position, length), column), self._nbytes))

    def store_key(self, code: Code, keys: Value, key: Row) -> None:
        """Store one element after the other."""
        with code.loop(key.length) as index:
            x = code.load(code.at(key.address, code.times(index, 4)), F32, 4)
            line = code.at(keys, code.times(index, self._nbytes * BLOCK_TOKENS))
            self._store(code, code.at(line, code.times(key.slot, self._nbytes)), x)

    def store_value(self, code: Code, values: Value, value: Row) -> None:
        """Store vectors."""
        zero = constant(I64, 0)
        row = self.value_address(code, values, value.length, value.slot, zero)
        with code.loop(vectors_of(code, value.length)) as index:
            x = code.load(code.at(value.address, code.times(index, 4 * LANES)), F32X16)
            self._store(code, code.at(row, code.times(index, self._nbytes * LANES)), x)

    def _load(self, code: Code, address: Value) -> Value:
        return code.load_half(address) if self._nbytes == 2 else code.load(address, F32X16)

    def _store(self, code: Code, address: Value, x: Value) -> None:
        x = clamped(code, x, self._largest)
        code.store(address, code.float_to_half(x) if self._nbytes == 2 else x)
