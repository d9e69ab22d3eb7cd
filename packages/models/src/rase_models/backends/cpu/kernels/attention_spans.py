"""Attention of a tile of queries over one span of positions, for each form of the cache.

The result is described in `attention`.
"""

from functools import cache
from typing import Any

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.cpu.abi import KEY_LENGTH, Q_STRIDE, SCALE, SLOPES, SOFT_CAP, VALUE_LENGTH, Q
from rase_models.backends.cpu.formats.kv_form import KvForm
from rase_models.backends.cpu.kernels.attention_tiles import keep_range, mix_tiles, score_tiles
from rase_models.backends.cpu.kernels.kv_cache import block_address, keys_of, sequence_of, values_of
from rase_models.backends.cpu.kernels.query_tiles import (
    FIRST_ROW,
    LAST_ROW,
    QUERIES,
    first_seen,
    head_of_query,
    row_of_query,
)
from rase_models.backends.cpu.kernels.rows import position_of
from rase_models.backends.cpu.kernels.soft_cap import cap_values
from rase_models.backends.cpu.shapes import (
    IN_BLOCK,
    MIXED_OFFSET,
    SCORE_STRIDE,
    SCORES_NBYTES,
    SPAN,
    SUMS_OFFSET,
)
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    count_from,
    exp,
    f32,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    max_lanes,
    maximum,
    splat,
    store_f32,
    store_f32x16,
    store_i64,
    subtract,
    sum_lanes,
)

_NOTHING = -1e30
"""The score of what is not seen: its exponential, relative to any real score and to half of it, is zero."""


@compiled
def find_queries(tile: int, op: int, kv_head: int, addresses: int) -> None:
    """Write the addresses of a tile's queries, the last one repeated to a multiple of 4."""
    queries = load_i64(tile + QUERIES)
    for i in range((queries + 3) & ~3):
        query = min(i, queries - 1)
        row = load_i64(op + Q) + row_of_query(tile, op, query) * load_i64(op + Q_STRIDE)
        head = head_of_query(tile, op, kv_head, query)
        store_i64(addresses + 8 * i, row + 4 * head * load_i64(op + KEY_LENGTH))


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
def _positions(op: int, context: int, tile: int, span: int) -> tuple[int, int]:
    """Return where in a span a tile's queries begin to see, in whole blocks, and the last that they see."""
    origin = span * SPAN
    last = min(position_of(context, load_i64(tile + LAST_ROW)) - origin, SPAN - 1)
    start = max(first_seen(op, position_of(context, load_i64(tile + FIRST_ROW))) - origin, 0) & ~IN_BLOCK
    return start, last


@compiled
def _keys(op: int, context: int, tile: int, kv_head: int, position: int) -> int:
    """Return the address of a KV head's keys in the block that holds a position of a tile's sequence."""
    sequence = sequence_of(context, load_i64(tile + FIRST_ROW))
    return int(keys_of(block_address(op, context, sequence, position), op, kv_head))


@compiled
def _slope(scores: int, start: int, end: int, position: int, slope: float) -> None:
    """Add slope * (p - position) to the scores of p from start to end."""
    for at in range(start, end, 16):
        distance = count_from(f32(at - position))
        store_f32x16(scores + 4 * at, fma(distance, splat(slope), load_f32x16(scores + 4 * at)))


@compiled
def _weigh(op: int, context: int, tile: int, kv_head: int, span: int, memory: int, result: int) -> None:
    """Turn the scores of a span into weights; note the largest and the sum of every query."""
    start, last = _positions(op, context, tile, span)
    end, origin = (last + BLOCK_TOKENS) & ~IN_BLOCK, span * SPAN
    for i in range(load_i64(tile + QUERIES)):
        scores = memory + SCORE_STRIDE * i
        if load_f32(op + SOFT_CAP) != f32(0.0):
            cap_values(scores + 4 * start, end - start, load_f32(op + SOFT_CAP))
        position = position_of(context, row_of_query(tile, op, i)) - origin
        if load_i64(op + SLOPES) != 0:
            slopes, head = load_i64(op + SLOPES), head_of_query(tile, op, kv_head, i)
            _slope(scores, start, end, position, load_f32(slopes + 4 * head))
        low = first_seen(op, position + origin) - origin
        _soften(scores, start, end, low, position + 1, result + 4 * i)


def _score(form: KvForm) -> Any:
    """Return the function that scores a tile's queries against a span."""
    tiles = score_tiles(form)
    score_1, score_2, score_4 = tiles[1], tiles[2], tiles[4]

    @compiled
    def score_block(
        addresses: int, keys: int, length: int, ahead: int, scores: int, queries: int, scale: float
    ) -> None:
        for i in range(0, queries, 4):
            at, to = addresses + 8 * i, scores + SCORE_STRIDE * i
            if queries - i >= 3:
                score_4(at, keys, length, ahead, to, SCORE_STRIDE, scale)
            elif queries - i == 2:
                score_2(at, keys, length, ahead, to, SCORE_STRIDE, scale)
            else:
                score_1(at, keys, length, ahead, to, SCORE_STRIDE, scale)

    @compiled
    def score(op: int, context: int, tile: int, kv_head: int, span: int, memory: int) -> None:
        start, last = _positions(op, context, tile, span)
        keys = _keys(op, context, tile, kv_head, span * SPAN + start)
        first_values = values_of(keys, op)
        for at in range(start, last + 1, BLOCK_TOKENS):
            ahead = first_values
            if at + BLOCK_TOKENS <= last:
                ahead = _keys(op, context, tile, kv_head, span * SPAN + at + BLOCK_TOKENS)
            scores, queries = memory + 4 * at, load_i64(tile + QUERIES)
            length, scale = load_i64(op + KEY_LENGTH), load_f32(op + SCALE)
            score_block(memory + SCORES_NBYTES, keys, length, ahead, scores, queries, scale)
            keys = ahead

    return score


def _mix(form: KvForm) -> Any:
    """Return the function that adds up a span's values by the weights of a tile's queries."""
    tiles = mix_tiles(form)
    mix_1, mix_2, mix_4 = tiles[1], tiles[2], tiles[4]

    @compiled
    def mix_block(
        weights: int, values: int, width: int, ahead: int, count: int, sums: int, queries: int
    ) -> None:
        for i in range(0, queries, 4):
            at, to = weights + SCORE_STRIDE * i, sums + 4 * width * i
            if queries - i >= 3:
                mix_4(at, SCORE_STRIDE, values, width, ahead, count, to)
            elif queries - i == 2:
                mix_2(at, SCORE_STRIDE, values, width, ahead, count, to)
            else:
                mix_1(at, SCORE_STRIDE, values, width, ahead, count, to)

    @compiled
    def mix(op: int, context: int, tile: int, kv_head: int, span: int, memory: int, result: int) -> None:
        start, last = _positions(op, context, tile, span)
        queries, width = load_i64(tile + QUERIES), load_i64(op + VALUE_LENGTH)
        for offset in range(0, 4 * width * ((queries + 3) & ~3), 64):
            store_f32x16(result + MIXED_OFFSET + offset, splat(f32(0.0)))
        values = values_of(_keys(op, context, tile, kv_head, span * SPAN + start), op)
        for at in range(start, last + 1, BLOCK_TOKENS):
            ahead = values
            if at + BLOCK_TOKENS <= last:
                ahead = values_of(_keys(op, context, tile, kv_head, span * SPAN + at + BLOCK_TOKENS), op)
            elif (span + 1) * SPAN <= position_of(context, load_i64(tile + LAST_ROW)):
                ahead = _keys(op, context, tile, kv_head, (span + 1) * SPAN)
            count = min(last + 1 - at, BLOCK_TOKENS)
            mix_block(memory + 4 * at, values, width, ahead, count, result + MIXED_OFFSET, queries)
            values = ahead

    return mix


@cache
def attend_to_span(form: KvForm) -> Any:
    """Return the function that computes a tile's result over a span that at least one of its queries sees.

    It is attend(op, context, tile, kv_head, span, memory, result).
    """
    score, mix = _score(form), _mix(form)

    @compiled
    def attend(op: int, context: int, tile: int, kv_head: int, span: int, memory: int, result: int) -> None:
        score(op, context, tile, kv_head, span, memory)
        _weigh(op, context, tile, kv_head, span, memory, result)
        mix(op, context, tile, kv_head, span, memory, result)

    return attend
