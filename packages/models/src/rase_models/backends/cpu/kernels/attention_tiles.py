"""The two matrix products of attention over a block of the cache, for 1, 2 or 4 queries at a time."""

from collections.abc import Mapping
from typing import Any

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, I32, I32X16, I64, LANES, Value, constant
from rase_models.backends.cpu.shapes import KEY_LINE
from rase_models.backends.cpu.simd import f32, f32x16, i64, operation, void

BLOCK_VECTORS = BLOCK_TOKENS // LANES
"""Vectors that a query's scores take in registers: the positions of a block."""
VECTORS = 4
"""Vectors that a query's sums take in registers: 64 columns of the values."""


def _score_tile(queries: int) -> Any:
    @operation(void, i64, i64, i64, i64, i64, f32)
    def score(
        code: Code,
        query_addresses: Value,
        keys: Value,
        length: Value,
        scores: Value,
        stride: Value,
        scale: Value,
    ) -> None:
        """Write scale * (q . k) of a block's positions for each query; keys are float16 [length][64]."""
        b = code.builder
        rows = [code.load(code.at(query_addresses, 8 * i), I64, 8) for i in range(queries)]
        sums = [[code.variable(constant(F32X16, 0.0)) for _ in range(BLOCK_VECTORS)] for _ in range(queries)]
        with code.loop(length) as index:
            line = code.at(keys, code.times(index, KEY_LINE))
            k = [code.load_half(code.at(line, 2 * LANES * j)) for j in range(BLOCK_VECTORS)]
            for row, row_sums in zip(rows, sums, strict=True):
                q = code.load_splat(code.at(row, code.times(index, 4)), F32)
                for vector, total in zip(k, row_sums, strict=True):
                    b.store(code.fma(q, vector, b.load(total)), total)
        factor = code.splat(scale)
        for i, row_sums in enumerate(sums):
            line = code.at(scores, code.times(stride, i))
            for j, total in enumerate(row_sums):
                code.store(code.at(line, 4 * LANES * j), b.fmul(b.load(total), factor))

    return score


def _mix_columns(
    code: Code,
    queries: int,
    vectors: int,
    weights: tuple[Value, Value],
    values: Value,
    row: Value,
    count: Value,
    sums: list[Value],
) -> None:
    """Add to `sums` (addresses) the weighted rows of values, `vectors` * 16 columns wide."""
    b = code.builder
    totals = [
        [code.variable(code.load(code.at(line, 4 * LANES * j), F32X16)) for j in range(vectors)]
        for line in sums
    ]
    with code.loop(count) as index:
        line = code.at(values, b.mul(index, row))
        v = [code.load_half(code.at(line, 2 * LANES * j)) for j in range(vectors)]
        for i in range(queries):
            weight_line = code.at(weights[0], code.times(weights[1], i))
            weight = code.load_splat(code.at(weight_line, code.times(index, 4)), F32)
            for vector, total in zip(v, totals[i], strict=True):
                b.store(code.fma(weight, vector, b.load(total)), total)
    for line, row_totals in zip(sums, totals, strict=True):
        for j, total in enumerate(row_totals):
            code.store(code.at(line, 4 * LANES * j), b.load(total))


def _mix_tile(queries: int) -> Any:
    @operation(void, i64, i64, i64, i64, i64, i64)
    def mix(
        code: Code, weights: Value, stride: Value, values: Value, width: Value, count: Value, sums: Value
    ) -> None:
        """Add `count` rows of values, float16 [count][width], weighted, to float32 sums [queries][width]."""
        b = code.builder
        row, lines = code.times(width, 2), code.times(width, 4)
        wide = b.lshr(width, constant(I64, 6))
        rest = b.lshr(b.and_(width, constant(I64, 63)), constant(I64, 4))
        columns_done = code.times(wide, 64)
        for vectors, repeats, start in ((VECTORS, wide, None), (1, rest, columns_done)):
            with code.loop(repeats) as index:
                column = code.times(index, LANES * vectors)
                column = column if start is None else b.add(column, start)
                targets = [
                    code.at(code.at(sums, code.times(lines, i)), code.times(column, 4))
                    for i in range(queries)
                ]
                source = code.at(values, code.times(column, 2))
                _mix_columns(code, queries, vectors, (weights, stride), source, row, count, targets)

    return mix


def score_tiles() -> Mapping[int, Any]:
    """Return the operations that compute scores, by the number of queries."""
    return {queries: _score_tile(queries) for queries in (1, 2, 4)}


def mix_tiles() -> Mapping[int, Any]:
    """Return the operations that mix values, by the number of queries."""
    return {queries: _mix_tile(queries) for queries in (1, 2, 4)}


@operation(f32x16, f32x16, i64, i64, f32)
def keep_range(code: Code, vector: Value, low: Value, high: Value, fill: Value) -> Value:
    """Return `vector` with lanes outside low <= lane < high (int64 within int32) replaced by `fill`."""
    b = code.builder
    lanes = constant(I32X16, range(LANES))
    from_low = b.icmp_signed(">=", lanes, code.splat(b.trunc(low, I32)))
    to_high = b.icmp_signed("<", lanes, code.splat(b.trunc(high, I32)))
    return b.select(b.and_(from_low, to_high), vector, code.splat(fill))
