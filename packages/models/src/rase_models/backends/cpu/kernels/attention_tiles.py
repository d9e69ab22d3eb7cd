"""The two matrix products of attention over a block of the cache, for 1, 2 or 4 queries at a time."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, I32, I32X16, I64, LANES, Value, constant
from rase_models.backends.cpu.formats.kv_form import BLOCK_VECTORS, KvForm, Row, prefetch_lines
from rase_models.backends.cpu.simd import f32, f32x16, i64, operation, void

VECTORS = 4
"""Vectors that a query's sums take in registers: 64 columns of the values."""
TILES = (1, 2, 4)
"""The numbers of queries that there are tiles for."""


def _score_tile(form: KvForm, queries: int) -> Any:
    @operation(void, i64, i64, i64, i64, i64, i64, f32)
    def score(
        code: Code,
        query_addresses: Value,
        keys: Value,
        length: Value,
        ahead: Value,
        scores: Value,
        stride: Value,
        scale: Value,
    ) -> None:
        """Write scale * (q . k) of a block's positions for each query; `ahead` is what is read next."""
        b = code.builder
        rows = [code.load(code.at(query_addresses, 8 * i), I64, 8) for i in range(queries)]
        sums = form.score(code, keys, length, ahead, rows)
        factor = code.splat(scale)
        for i, row_sums in enumerate(sums):
            line = code.at(scores, code.times(stride, i))
            for j in range(BLOCK_VECTORS):
                code.store(code.at(line, 4 * LANES * j), b.fmul(b.load(row_sums[j]), factor))

    return score


class _Mixing:
    """Adding up weighted values of some columns for some queries."""

    def __init__(self, code: Code, form: KvForm, values: Value, width: Value, ahead: Value) -> None:
        self._code, self._form, self._values, self._width = code, form, values, width
        self._ahead = ahead

    def columns(
        self, weights: list[Value], sums: list[Value], count: Value, column: Value, vectors: int
    ) -> None:
        """Add `count` positions to float32 sums, `vectors` * 16 columns wide, of queries at addresses."""
        code, b = self._code, self._code.builder
        places = [[code.at(line, 4 * LANES * j) for j in range(vectors)] for line in sums]
        totals = [[code.variable(code.load(at, F32X16)) for at in line] for line in places]
        with code.loop(count) as position:
            self._prefetch(position, column, vectors)
            loaded = self._form.value(code, self._values, self._width, position, column, vectors)
            for line, row in zip(weights, totals, strict=True):
                weight = code.load(code.at(line, code.times(position, 4)), F32, 4)
                factors: dict[Value | None, Value] = {}
                for (vector, scale), total in zip(loaded, row, strict=True):
                    if scale not in factors:
                        factors[scale] = code.splat(weight if scale is None else b.fmul(weight, scale))
                    b.store(code.fma(factors[scale], vector, b.load(total)), total)
        for line, row in zip(places, totals, strict=True):
            for at, total in zip(line, row, strict=True):
                code.store(at, b.load(total))

    def _prefetch(self, position: Value, column: Value, vectors: int) -> None:
        at = self._form.value_address(self._code, self._ahead, self._width, position, column)
        nbytes = self._form.values_nbytes(LANES * vectors) // 64
        prefetch_lines(self._code, at, nbytes if vectors == VECTORS else 0)


def _mix_tile(form: KvForm, queries: int) -> Any:
    @operation(void, i64, i64, i64, i64, i64, i64, i64)
    def mix(
        code: Code,
        weights: Value,
        stride: Value,
        values: Value,
        width: Value,
        ahead: Value,
        count: Value,
        sums: Value,
    ) -> None:
        """Add `count` positions' values, weighted, to float32 sums [queries][width]."""
        b = code.builder
        mixing = _Mixing(code, form, values, width, ahead)
        lines = [code.at(weights, code.times(stride, i)) for i in range(queries)]
        wide = b.lshr(width, constant(I64, 6))
        rest = b.lshr(b.and_(width, constant(I64, 63)), constant(I64, 4))
        for vectors, repeats, start in (
            (VECTORS, wide, constant(I64, 0)),
            (1, rest, code.times(wide, LANES * VECTORS)),
        ):
            with code.loop(repeats) as index:
                column = b.add(code.times(index, LANES * vectors), start)
                places = [
                    code.at(code.at(sums, code.times(code.times(width, 4), i)), code.times(column, 4))
                    for i in range(queries)
                ]
                mixing.columns(lines, places, count, column, vectors)

    return mix


@cache
def score_tiles(form: KvForm) -> Mapping[int, Any]:
    """Return the operations that compute scores, by the number of queries."""
    return {queries: _score_tile(form, queries) for queries in TILES}


@cache
def mix_tiles(form: KvForm) -> Mapping[int, Any]:
    """Return the operations that mix values, by the number of queries."""
    return {queries: _mix_tile(form, queries) for queries in TILES}


@cache
def store_operations(form: KvForm) -> tuple[Any, Any]:
    """Return the operations that store a key and a value: (block's keys or values, length, slot, float32)."""

    @operation(void, i64, i64, i64, i64)
    def store_key(code: Code, keys: Value, length: Value, slot: Value, key: Value) -> None:
        form.store_key(code, keys, Row(key, length, slot))

    @operation(void, i64, i64, i64, i64)
    def store_value(code: Code, values: Value, length: Value, slot: Value, value: Value) -> None:
        form.store_value(code, values, Row(value, length, slot))

    return store_key, store_value


@operation(f32x16, f32x16, i64, i64, f32)
def keep_range(code: Code, vector: Value, low: Value, high: Value, fill: Value) -> Value:
    """Return `vector` with lanes outside low <= lane < high (int64 within int32) replaced by `fill`."""
    b = code.builder
    lanes = constant(I32X16, range(LANES))
    from_low = b.icmp_signed(">=", lanes, code.splat(b.trunc(low, I32)))
    to_high = b.icmp_signed("<", lanes, code.splat(b.trunc(high, I32)))
    return b.select(b.and_(from_low, to_high), vector, code.splat(fill))
