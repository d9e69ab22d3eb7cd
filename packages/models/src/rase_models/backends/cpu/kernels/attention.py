"""Attention over the paged cache, exact and independent of how the work is cut.

Positions are cut into fixed spans of 256. Within a span a query's softmax is exact: scores, their largest,
exponentials, sums. The results of spans are merged from left to right, each scaled to the largest score so
far. A position that a query does not see has weight zero, and adding zero changes nothing, so neighbours in
a tile do not matter.

A result of a span, and the state that results are merged into, is float32:
    largest[16] | sum[16] | mixed values [16][value_length]        for the 16 queries of a tile
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    KV_HEADS,
    PARTIALS,
    SINKS,
    TILES,
    VALUE_LENGTH,
)
from rase_models.backends.cpu.formats.kv_forms import KV_FORMS
from rase_models.backends.cpu.kernels.attention_spans import attend_to_span as spans_of
from rase_models.backends.cpu.kernels.attention_spans import find_queries
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.query_tiles import (
    FIRST_ROW,
    LAST_ROW,
    QUERIES,
    first_seen,
    head_of_query,
    row_of_query,
)
from rase_models.backends.cpu.kernels.rows import position_of, scratch
from rase_models.backends.cpu.shapes import (
    ADDRESSES_NBYTES,
    MIXED_OFFSET,
    SCORES_NBYTES,
    SPAN,
    SUMS_OFFSET,
    TILE_HEADER_NBYTES,
    TILE_NBYTES,
    TILE_QUERIES,
)
from rase_models.backends.cpu.simd import (
    compiled,
    exp_f32,
    f32,
    fma,
    fma_f32,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32,
    store_f32x16,
)
from rase_models.kv_type import KvType


@compiled
def _result_bytes(op: int) -> int:
    return int(MIXED_OFFSET + 4 * TILE_QUERIES * load_i64(op + VALUE_LENGTH))


@compiled
def _merge(state: int, result: int, queries: int, width: int) -> None:
    """Merge the result of the next span into the state."""
    for i in range(queries):
        before, new = load_f32(state + 4 * i), load_f32(result + 4 * i)
        most = max(before, new)
        keep, take = exp_f32(before - most), exp_f32(new - most)
        total = fma_f32(
            load_f32(result + SUMS_OFFSET + 4 * i), take, load_f32(state + SUMS_OFFSET + 4 * i) * keep
        )
        store_f32(state + 4 * i, most)
        store_f32(state + SUMS_OFFSET + 4 * i, total)
        offset = MIXED_OFFSET + 4 * width * i
        for at in range(offset, offset + 4 * width, 64):
            mixed = multiply(load_f32x16(state + at), splat(keep))
            store_f32x16(state + at, fma(load_f32x16(result + at), splat(take), mixed))


@compiled
def _share(op: int, head: int, largest: float, total: float) -> Any:
    """Return what mixed values are multiplied by in the end: 1 / total, with the head's sink in the total."""
    if load_i64(op + SINKS) == 0:
        return f32(1.0) / total
    sink = load_f32(load_i64(op + SINKS) + 4 * head)
    most = max(largest, sink)
    keep = exp_f32(largest - most)
    return keep / fma_f32(total, keep, exp_f32(sink - most))


@compiled
def _write(thread: int, op: int, context: int, tile: int, kv_head: int, state: int) -> None:
    """Divide the mixed values by the sums of the weights, and write them."""
    width = load_i64(op + VALUE_LENGTH)
    for i in range(load_i64(tile + QUERIES)):
        row, head = row_of_query(tile, op, i), head_of_query(tile, op, kv_head, i)
        inverse = splat(_share(op, head, load_f32(state + 4 * i), load_f32(state + SUMS_OFFSET + 4 * i)))
        mixed = state + MIXED_OFFSET + 4 * width * i
        for at in range(0, 4 * width, 64):
            store_f32x16(mixed + at, multiply(load_f32x16(mixed + at), inverse))
        write_values(thread, op, context, row, head * width, mixed, width)


@compiled
def _spans(op: int, context: int, tile: int) -> tuple[int, int]:
    """Return the first and the last span that a tile's queries see."""
    first = first_seen(op, position_of(context, load_i64(tile + FIRST_ROW)))
    return first // SPAN, position_of(context, load_i64(tile + LAST_ROW)) // SPAN


@compiled
def _tile_of(op: int, item: int) -> tuple[int, int]:
    """Return the address of an item's tile, the longest of the last sequence first, and its KV head."""
    table = load_i64(op + TILES)
    tiles = load_i64(table)
    kv_head = item // tiles
    return table + TILE_HEADER_NBYTES + TILE_NBYTES * (tiles - 1 - (item - kv_head * tiles)), kv_head


@compiled
def _item_count(op: int, context: int) -> int:
    table = load_i64(op + TILES)
    return int(load_i64(table) * load_i64(op + KV_HEADS) * max(load_i64(table + 8), 1))


@compiled
def _merge_count(op: int, context: int) -> int:
    table = load_i64(op + TILES)
    return int(load_i64(table) * load_i64(op + KV_HEADS) if load_i64(table + 8) > 0 else 0)


@compiled
def _merge_spans(thread: int, op: int, context: int, item: int) -> None:
    """Merge the results of a tile's spans and write its output."""
    tile, kv_head = _tile_of(op, item)
    first, last = _spans(op, context, tile)
    size = _result_bytes(op)
    results = load_i64(context + PARTIALS) + item * load_i64(load_i64(op + TILES) + 8) * size
    for span in range(first + 1, last + 1):
        _merge(
            results + first * size,
            results + span * size,
            load_i64(tile + QUERIES),
            load_i64(op + VALUE_LENGTH),
        )
    _write(thread, op, context, tile, kv_head, results + first * size)


def attend(kv_type: str) -> Any:
    """Build the kernel that attends with the queries Q to the cache, whose blocks have a form."""
    attend_to_span = spans_of(KV_FORMS[KvType(kv_type)])

    @compiled
    def attend_to_all(thread: int, op: int, context: int, item: int) -> None:
        """Walk all spans of a tile and write its output."""
        tile, kv_head = _tile_of(op, item)
        memory = scratch(thread, context)
        state = memory + SCORES_NBYTES + ADDRESSES_NBYTES
        result = state + _result_bytes(op)
        first, last = _spans(op, context, tile)
        find_queries(tile, op, kv_head, memory + SCORES_NBYTES)
        attend_to_span(op, context, tile, kv_head, first, memory, state)
        for span in range(first + 1, last + 1):
            attend_to_span(op, context, tile, kv_head, span, memory, result)
            _merge(state, result, load_i64(tile + QUERIES), load_i64(op + VALUE_LENGTH))
        _write(thread, op, context, tile, kv_head, state)

    @compiled
    def attend_to_one(thread: int, op: int, context: int, item: int) -> None:
        """Leave the result of one span of a tile for the merge."""
        spans = load_i64(load_i64(op + TILES) + 8)
        whole = item // spans
        span = item - whole * spans
        tile, kv_head = _tile_of(op, whole)
        first, last = _spans(op, context, tile)
        if first <= span <= last:
            memory = scratch(thread, context)
            find_queries(tile, op, kv_head, memory + SCORES_NBYTES)
            result = load_i64(context + PARTIALS) + item * _result_bytes(op)
            attend_to_span(op, context, tile, kv_head, span, memory, result)

    @compiled
    def attend_to(thread: int, op: int, context: int, item: int) -> None:
        if load_i64(load_i64(op + TILES) + 8) > 0:
            attend_to_one(thread, op, context, item)
        else:
            attend_to_all(thread, op, context, item)

    return share(_item_count, attend_to, 8)


def merge_spans() -> Any:
    """Build the kernel that merges the results of spans, where attention was split by spans."""
    return share(_merge_count, _merge_spans, 2)
