"""Attention over the paged cache, exact and independent of how the work is cut.

Positions are cut into fixed spans of 256. Within a span a query's softmax is exact: scores, their largest,
exponentials, sums. The results of spans are merged from left to right, each scaled to the largest score so
far. A position that a query does not see has weight zero, and adding zero changes nothing, so neighbours in
a tile do not matter.

A result of a span, and the state that results are merged into, is float32:
    largest[16] | sum[16] | mixed values [16][value_length]        for the 16 queries of a tile
"""

from typing import Any

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.abi import (
    HEADS,
    KEY_LENGTH,
    KV_HEADS,
    PARTIALS,
    Q_STRIDE,
    SCALE,
    SINKS,
    SOFT_CAP,
    TILES,
    VALUE_LENGTH,
    WINDOW,
    Q,
)
from rase_models.backends.cpu.kernels.attention_tiles import keep_range, mix_tiles, score_tiles
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.kv_cache import block_address, keys_of, sequence_of
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.query_tiles import (
    FIRST_QUERY,
    FIRST_ROW,
    LAST_ROW,
    QUERIES,
)
from rase_models.backends.cpu.kernels.rows import position_of, scratch
from rase_models.backends.cpu.kernels.soft_cap import cap_values
from rase_models.backends.cpu.shapes import (
    ADDRESSES_NBYTES,
    IN_BLOCK,
    KEY_LINE,
    MIXED_OFFSET,
    SCORE_STRIDE,
    SCORES_NBYTES,
    SPAN,
    SUMS_OFFSET,
    TILE_HEADER_NBYTES,
    TILE_NBYTES,
    TILE_QUERIES,
)
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    exp,
    exp_f32,
    f32,
    fma,
    fma_f32,
    load_f32,
    load_f32x16,
    load_i64,
    max_lanes,
    maximum,
    multiply,
    splat,
    store_f32,
    store_f32x16,
    store_i64,
    subtract,
    sum_lanes,
)

_NOTHING = -1e30
"""The score of what is not seen: its exponential, relative to any real score and to half of it, is zero."""
_score = score_tiles()
_score_1, _score_2, _score_4 = _score[1], _score[2], _score[4]
_mix = mix_tiles()
_mix_1, _mix_2, _mix_4 = _mix[1], _mix[2], _mix[4]


@compiled
def _result_bytes(op: int) -> int:
    return int(MIXED_OFFSET + 4 * TILE_QUERIES * load_i64(op + VALUE_LENGTH))


@compiled
def _row_of_query(tile: int, op: int, query: int) -> int:
    group = load_i64(op + HEADS) // load_i64(op + KV_HEADS)
    return int(load_i64(tile + FIRST_ROW) + (load_i64(tile + FIRST_QUERY) + query) // group)


@compiled
def _head_of_query(tile: int, op: int, kv_head: int, query: int) -> int:
    group = load_i64(op + HEADS) // load_i64(op + KV_HEADS)
    return int(kv_head * group + (load_i64(tile + FIRST_QUERY) + query) % group)


@compiled
def _first_seen(op: int, position: int) -> int:
    """Return the first position that a row at a position sees."""
    window = load_i64(op + WINDOW)
    return max(position + 1 - window, 0) if window > 0 else 0


@compiled
def _find_queries(tile: int, op: int, kv_head: int, addresses: int) -> None:
    """Write the addresses of a tile's queries, the last one repeated to a multiple of 4."""
    queries = load_i64(tile + QUERIES)
    for i in range((queries + 3) & ~3):
        query = min(i, queries - 1)
        row = load_i64(op + Q) + _row_of_query(tile, op, query) * load_i64(op + Q_STRIDE)
        head = _head_of_query(tile, op, kv_head, query)
        store_i64(addresses + 8 * i, row + 4 * head * load_i64(op + KEY_LENGTH))


@compiled
def _score_block(addresses: int, keys: int, length: int, scores: int, queries: int, scale: float) -> None:
    for i in range(0, queries, 4):
        at, to = addresses + 8 * i, scores + SCORE_STRIDE * i
        if queries - i >= 3:
            _score_4(at, keys, length, to, SCORE_STRIDE, scale)
        elif queries - i == 2:
            _score_2(at, keys, length, to, SCORE_STRIDE, scale)
        else:
            _score_1(at, keys, length, to, SCORE_STRIDE, scale)


@compiled
def _mix_block(weights: int, values: int, width: int, count: int, sums: int, queries: int) -> None:
    for i in range(0, queries, 4):
        at, to = weights + SCORE_STRIDE * i, sums + 4 * width * i
        if queries - i >= 3:
            _mix_4(at, SCORE_STRIDE, values, width, count, to)
        elif queries - i == 2:
            _mix_2(at, SCORE_STRIDE, values, width, count, to)
        else:
            _mix_1(at, SCORE_STRIDE, values, width, count, to)


@compiled
def _hide(scores: int, start: int, end: int, low: int, high: int) -> None:
    """Make scores from start to end outside low..high count as nothing."""
    for position in range(start, end, 16):
        at = scores + 4 * position
        store_f32x16(at, keep_range(load_f32x16(at), low - position, high - position, f32(_NOTHING)))


@compiled
def _soften(scores: int, start: int, end: int, low: int, high: int, result: int) -> None:
    """Turn scores from start to end into weights, zero outside low..high; note largest and sum."""
    _hide(scores, start, min((max(low, start) + 15) & ~15, end), low, high)
    _hide(scores, max(min(high, end) & ~15, start), end, low, high)
    largest = splat(f32(_NOTHING))
    for position in range(start, end, 16):
        largest = maximum(largest, load_f32x16(scores + 4 * position))
    most = max_lanes(largest)
    total, origin = splat(f32(0.0)), splat(max(most, f32(_NOTHING / 2)))
    for position in range(start, end, 16):
        weights = exp(subtract(load_f32x16(scores + 4 * position), origin))
        store_f32x16(scores + 4 * position, weights)
        total = add(total, weights)
    store_f32(result, most)
    store_f32(result + SUMS_OFFSET, sum_lanes(total))


@compiled
def _attend_to_span(
    op: int, context: int, tile: int, kv_head: int, span: int, memory: int, result: int
) -> None:
    """Compute a tile's result over one span, which at least one of its queries sees."""
    addresses = memory + SCORES_NBYTES
    queries, width = load_i64(tile + QUERIES), load_i64(op + VALUE_LENGTH)
    first_row, last_row = load_i64(tile + FIRST_ROW), load_i64(tile + LAST_ROW)
    sequence, origin = sequence_of(context, first_row), span * SPAN
    last = min(position_of(context, last_row) - origin, SPAN - 1)
    start = max(_first_seen(op, position_of(context, first_row)) - origin, 0) & ~IN_BLOCK
    end = (last + BLOCK_TOKENS) & ~IN_BLOCK
    length, scale = load_i64(op + KEY_LENGTH), load_f32(op + SCALE)
    for at in range(start, last + 1, BLOCK_TOKENS):
        keys = keys_of(block_address(op, context, sequence, origin + at), op, kv_head)
        _score_block(addresses, keys, length, memory + 4 * at, queries, scale)
    for i in range(queries):
        if load_f32(op + SOFT_CAP) != f32(0.0):
            cap_values(memory + SCORE_STRIDE * i + 4 * start, end - start, load_f32(op + SOFT_CAP))
        position = position_of(context, _row_of_query(tile, op, i)) - origin
        low = _first_seen(op, position + origin) - origin
        _soften(memory + SCORE_STRIDE * i, start, end, low, position + 1, result + 4 * i)
    for offset in range(0, 4 * width * ((queries + 3) & ~3), 64):
        store_f32x16(result + MIXED_OFFSET + offset, splat(f32(0.0)))
    for at in range(start, last + 1, BLOCK_TOKENS):
        values = keys_of(block_address(op, context, sequence, origin + at), op, kv_head) + KEY_LINE * length
        count = min(last + 1 - at, BLOCK_TOKENS)
        _mix_block(memory + 4 * at, values, width, count, result + MIXED_OFFSET, queries)


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
        row, head = _row_of_query(tile, op, i), _head_of_query(tile, op, kv_head, i)
        inverse = splat(_share(op, head, load_f32(state + 4 * i), load_f32(state + SUMS_OFFSET + 4 * i)))
        mixed = state + MIXED_OFFSET + 4 * width * i
        for at in range(0, 4 * width, 64):
            store_f32x16(mixed + at, multiply(load_f32x16(mixed + at), inverse))
        write_values(thread, op, context, row, head * width, mixed, width)


@compiled
def _spans(op: int, context: int, tile: int) -> tuple[int, int]:
    """Return the first and the last span that a tile's queries see."""
    first = _first_seen(op, position_of(context, load_i64(tile + FIRST_ROW)))
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
def _attend_to_all(thread: int, op: int, context: int, item: int) -> None:
    """Walk all spans of a tile and write its output."""
    tile, kv_head = _tile_of(op, item)
    memory = scratch(thread, context)
    state = memory + SCORES_NBYTES + ADDRESSES_NBYTES
    result = state + _result_bytes(op)
    first, last = _spans(op, context, tile)
    _find_queries(tile, op, kv_head, memory + SCORES_NBYTES)
    _attend_to_span(op, context, tile, kv_head, first, memory, state)
    for span in range(first + 1, last + 1):
        _attend_to_span(op, context, tile, kv_head, span, memory, result)
        _merge(state, result, load_i64(tile + QUERIES), load_i64(op + VALUE_LENGTH))
    _write(thread, op, context, tile, kv_head, state)


@compiled
def _attend_to_one(thread: int, op: int, context: int, item: int) -> None:
    """Leave the result of one span of a tile for the merge."""
    spans = load_i64(load_i64(op + TILES) + 8)
    whole = item // spans
    span = item - whole * spans
    tile, kv_head = _tile_of(op, whole)
    first, last = _spans(op, context, tile)
    if first <= span <= last:
        memory = scratch(thread, context)
        _find_queries(tile, op, kv_head, memory + SCORES_NBYTES)
        result = load_i64(context + PARTIALS) + item * _result_bytes(op)
        _attend_to_span(op, context, tile, kv_head, span, memory, result)


@compiled
def _attend(thread: int, op: int, context: int, item: int) -> None:
    if load_i64(load_i64(op + TILES) + 8) > 0:
        _attend_to_one(thread, op, context, item)
    else:
        _attend_to_all(thread, op, context, item)


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


def attend() -> Any:
    """Build the kernel that attends with the queries Q to the cache."""
    return share(_item_count, _attend, 8)


def merge_spans() -> Any:
    """Build the kernel that merges the results of spans, where attention was split by spans."""
    return share(_merge_count, _merge_spans, 2)
