"""Keys and values as bytes with scales."""

from collections.abc import Iterator, Sequence

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, I8X16, I16, I64, LANES, Value, constant
from rase_models.backends.cpu.formats.kv_form import (
    BLOCK_VECTORS,
    KvForm,
    Row,
    Scaled,
    add_products,
    clamped,
    prefetch_lines,
    zero_sums,
)
from rase_models.kv_type import KvType

_GROUP = 32
_MOST = 127.0
_LARGEST = 65504.0


class ByteKv(KvForm):
    """8 bits a value, and a float16 scale for every 32 values of a position (16, where fewer are left).

    The bytes of a block come first, [key_length][positions] or [positions][value_length], then the scales,
    [groups][positions] or [positions][groups].
    """

    kv_type = KvType.Q8_0

    def keys_nbytes(self, length: int) -> int:
        """Return the bytes of the keys of a block."""
        return BLOCK_TOKENS * (length + 2 * -(-length // _GROUP))

    def values_nbytes(self, length: int) -> int:
        """Return the bytes of the values of a block."""
        return self.keys_nbytes(length)

    def score(
        self, code: Code, keys: Value, length: Value, ahead: Value, queries: Sequence[Value]
    ) -> list[list[Value]]:
        """Add up the products of each 32 elements, and those sums times their scales."""
        sums = zero_sums(code, len(queries))
        with code.loop(_groups(code, length)) as group:
            parts = zero_sums(code, len(queries))
            first = code.times(group, _GROUP)
            with code.loop(_group_length(code, length, first)) as inner:
                index = code.at(first, inner)
                prefetch_lines(code, code.at(ahead, code.times(index, BLOCK_TOKENS)), BLOCK_TOKENS)
                at = code.at(keys, code.times(index, BLOCK_TOKENS))
                k = [code.load_bytes(code.at(at, LANES * j), signed=True) for j in range(BLOCK_VECTORS)]
                add_products(code, queries, index, k, parts)
            self._add_scaled(code, code.at(keys, code.times(length, BLOCK_TOKENS)), group, parts, sums)
        return sums

    def _add_scaled(
        self, code: Code, scales: Value, group: Value, parts: list[list[Value]], sums: list[list[Value]]
    ) -> None:
        b = code.builder
        line = code.at(scales, code.times(group, 2 * BLOCK_TOKENS))
        scale = [code.load_half(code.at(line, 2 * LANES * j)) for j in range(BLOCK_VECTORS)]
        for row_parts, row_sums in zip(parts, sums, strict=True):
            for factor, part, total in zip(scale, row_parts, row_sums, strict=True):
                b.store(code.fma(b.load(part), factor, b.load(total)), total)

    def value(
        self, code: Code, values: Value, length: Value, position: Value, column: Value, vectors: int
    ) -> list[Scaled]:
        """Load bytes, and a scale for each two vectors."""
        at = self.value_address(code, values, length, position, column)
        scale_at = self._value_scale(code, values, length, position, column)
        scales = [_load_scale(code, code.at(scale_at, 2 * pair)) for pair in range(-(-vectors // 2))]
        return [
            (code.load_bytes(code.at(at, LANES * j), signed=True), scales[j // 2]) for j in range(vectors)
        ]

    def value_address(
        self, code: Code, values: Value, length: Value, position: Value, column: Value
    ) -> Value:
        """Return where a column of a position's values is."""
        b = code.builder
        return code.at(values, b.add(b.mul(position, length), column))

    def _value_scale(self, code: Code, values: Value, length: Value, position: Value, column: Value) -> Value:
        b = code.builder
        index = b.add(b.mul(position, _groups(code, length)), b.lshr(column, constant(I64, 5)))
        return code.at(code.at(values, code.times(length, BLOCK_TOKENS)), code.times(index, 2))

    def store_key(self, code: Code, keys: Value, key: Row) -> None:
        """Quantise 32 elements at a time."""
        scales = code.at(code.at(keys, code.times(key.length, BLOCK_TOKENS)), code.times(key.slot, 2))
        for first, vectors in _walk_groups(code, key):
            bytes_, scale = _quantised(code, key, first, vectors)
            group = code.builder.lshr(first, constant(I64, 5))
            code.store(code.at(scales, code.times(group, 2 * BLOCK_TOKENS)), scale)
            column = code.at(code.at(keys, code.times(first, BLOCK_TOKENS)), key.slot)
            for i in range(LANES * vectors):
                lane = code.lane(bytes_[i // LANES], i % LANES)
                code.store(code.at(column, BLOCK_TOKENS * i), lane)

    def store_value(self, code: Code, values: Value, value: Row) -> None:
        """Quantise 32 columns at a time."""
        for first, vectors in _walk_groups(code, value):
            bytes_, scale = _quantised(code, value, first, vectors)
            code.store(self._value_scale(code, values, value.length, value.slot, first), scale)
            at = self.value_address(code, values, value.length, value.slot, first)
            for j, part in enumerate(bytes_):
                code.store(code.at(at, LANES * j), part)


def _groups(code: Code, length: Value) -> Value:
    return code.builder.lshr(code.at(length, _GROUP - 1), constant(I64, 5))


def _group_length(code: Code, length: Value, first: Value) -> Value:
    b = code.builder
    rest = b.sub(length, first)
    whole = constant(I64, _GROUP)
    return b.select(b.icmp_signed("<", rest, whole), rest, whole)


def _load_scale(code: Code, address: Value) -> Value:
    return code.half_to_float(code.load(address, I16, 2))


def _walk_groups(code: Code, row: Row) -> Iterator[tuple[Value, int]]:
    """Emit the loops over 32 elements at a time, and over the last 16; gives the first, and the vectors."""
    b = code.builder
    whole = b.lshr(row.length, constant(I64, 5))
    with code.loop(whole) as index:
        yield code.times(index, _GROUP), 2
    with code.loop(b.lshr(b.and_(row.length, constant(I64, LANES)), constant(I64, 4))):
        yield code.times(whole, _GROUP), 1


def _quantised(code: Code, row: Row, first: Value, vectors: int) -> tuple[list[Value], Value]:
    """Return vectors of elements as int8, and their scale as float16 bits."""
    b = code.builder
    at = code.at(row.address, code.times(first, 4))
    x = [clamped(code, code.load(code.at(at, 4 * LANES * j), F32X16), _LARGEST) for j in range(vectors)]
    magnitudes = code.absolute(x[0])
    for part in x[1:]:
        magnitudes = code.maximum(magnitudes, code.absolute(part))
    most = code.fold(magnitudes, code.maximum)
    is_zero = b.fcmp_ordered("==", most, constant(F32, 0.0))
    inverse = b.select(is_zero, constant(F32, 0.0), b.fdiv(constant(F32, _MOST), most))
    factor = code.splat(inverse)
    whole = [b.trunc(code.round_to_int(b.fmul(part, factor)), I8X16) for part in x]
    return whole, code.float_to_half(b.fmul(most, constant(F32, 1.0 / _MOST)))
