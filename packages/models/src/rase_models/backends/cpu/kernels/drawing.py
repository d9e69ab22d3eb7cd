"""Tokens drawn from rows of logits: sorted as far as they may be drawn, their shares added up in that order.

Every number that decides has the bits of core's `Candidates`; what only bounds how many are sorted is rough.
"""

import math
from typing import Any

from rase_models.backends.cpu.abi import X_STRIDE, N, X
from rase_models.backends.cpu.drawing_abi import (
    ARRAYS,
    BUCKET_COUNTS,
    BUCKET_NUMBERS,
    BUCKETS,
    DIGIT_COUNTS,
    DIGIT_FIRSTS,
    DIGIT_LINES,
    DIGIT_NEXTS,
    DIGIT_VALUES,
    DRAW_MEMORY,
    DRAW_PLACES,
    DRAW_WAYS,
    DRAWN,
    DRAWN_ROWS,
    DRAWN_TOKENS,
    KEY_DIGITS,
    REST,
    WAY_MIN_P,
    WAY_NUMBERS,
    WAY_TARGET,
    WAY_TEMPERATURE,
    WAY_TOP_K,
    WAY_TOP_P,
    WAY_UNIFORM,
)
from rase_models.backends.cpu.kernels.ranking import MINUS_INFINITY, order_of
from rase_models.backends.cpu.simd import (
    compiled,
    load_f32x16,
    load_f64,
    load_i32,
    load_i64,
    max_lanes,
    maximum,
    minimum,
    multiply,
    round_to_int,
    splat,
    store_f32,
    store_f32x16,
    store_f64,
    store_i32,
    store_i32x16,
    store_i64,
    subtract,
)
from rase_models.backends.cpu.simd.ranking import lanes_above, store_shares

_PER_UNIT = 128
"""Buckets for a factor of e: a bucket's shares differ by less than a hundredth."""
_STEP, _HALF_STEP = math.exp(-1 / _PER_UNIT), math.exp(-0.5 / _PER_UNIT)
_SLACK = 1.0001
"""More than what rounding can move a logit across the edge of a bucket, or a share across a bound."""
_ROUNDING = 2.0**-22
_DIGIT_BITS = 8
_LINE = 8
"""Keys that are written together, a vector's."""
_TOKEN_BITS = 31
"""The lower bits of a key, which with the order of a logit above them leave the sign free."""
_TOKEN = (1 << _TOKEN_BITS) - 1
_LEAST_INT32, _BELOW_ALL = -0x80000000, -0x7F800001


@compiled
def _whole(size: int) -> int:
    return size & ~15


@compiled
def _rest_of(values: int, size: int, rest: int) -> int:
    """Copy the end of a row that fills no vector, minus infinities after it; returns the address."""
    whole = _whole(size)
    for lane in range(16):
        is_there = whole + lane < size
        store_i32(rest + 4 * lane, int(load_i32(values + 4 * (whole + lane))) if is_there else MINUS_INFINITY)
    return rest


@compiled
def _largest(values: int, size: int, memory: int) -> float:
    rest = load_f32x16(_rest_of(values, size, memory + REST))
    for first in range(0, _whole(size), 16):
        rest = maximum(rest, load_f32x16(values + 4 * first))
    return float(max_lanes(rest))


@compiled
def _count_16(values: int, count: int, most: float, memory: int) -> None:
    """Count logits, at most 16, in their buckets."""
    below = multiply(subtract(splat(most), load_f32x16(values)), splat(float(_PER_UNIT)))
    store_i32x16(memory + BUCKET_NUMBERS, round_to_int(minimum(below, splat(float(BUCKETS - 1)))))
    for lane in range(count):
        place = memory + BUCKET_COUNTS + 4 * int(load_i32(memory + BUCKET_NUMBERS + 4 * lane))
        store_i32(place, load_i32(place) + 1)


@compiled
def _count(values: int, size: int, most: float, memory: int) -> None:
    """Count how many logits are in each bucket."""
    for bucket in range(BUCKETS):
        store_i32(memory + BUCKET_COUNTS + 4 * bucket, 0)
    for first in range(0, _whole(size), 16):
        _count_16(values + 4 * first, 16, most, memory)
    if size > _whole(size):
        _count_16(_rest_of(values, size, memory + REST), size - _whole(size), most, memory)


@compiled
def _last_bucket(way: int, memory: int) -> int:
    """Return the last of the buckets from which may be drawn."""
    most, target, least = math.inf, load_f64(way + WAY_TARGET) * _SLACK, load_f64(way + WAY_MIN_P) / _SLACK
    if load_f64(way + WAY_TOP_K) > 0:
        most, target, least = load_f64(way + WAY_TOP_K), math.inf, 0.0
    count, sum_of_least, share = 0, 0.0, 1.0
    for bucket in range(BUCKETS):
        here = int(load_i32(memory + BUCKET_COUNTS + 4 * bucket))
        count += here
        sum_of_least += here * share * _HALF_STEP
        share *= _STEP
        # The next one's largest share is half a step above its middle.
        if count >= most or sum_of_least >= target or share / _HALF_STEP < least:
            return bucket
    return BUCKETS


@compiled
def _order(number: float, memory: int) -> int:
    store_f32(memory + REST, number)
    return order_of(memory + REST, 0)


@compiled
def _limit(most: float, bucket: int, memory: int) -> int:
    """Return an order below those of all logits of the buckets up to this one."""
    if bucket >= BUCKETS - 1:
        return _BELOW_ALL
    below = (bucket + 0.75) / _PER_UNIT
    return _order(most - below - (abs(most) + below) * _ROUNDING, memory)


@compiled
def _add_key(keys: int, count: int, values: int, token: int, top: int) -> None:
    store_i64(keys + 8 * count, ((top - order_of(values, token)) << _TOKEN_BITS) + token)


@compiled
def _collect(values: int, size: int, limit: int, top: int, keys: int) -> int:
    """Write the keys of all tokens above a limit, the likeliest's the least; return how many."""
    count, whole = 0, _whole(size)
    for first in range(0, whole, 16):
        lanes = lanes_above(values + 4 * first, limit)
        lane = 0
        while lanes != 0:
            if lanes & 1:
                _add_key(keys, count, values, first + lane, top)
                count += 1
            lanes >>= 1
            lane += 1
    for token in range(whole, size):
        if order_of(values, token) > limit:
            _add_key(keys, count, values, token, top)
            count += 1
    return count


@compiled
def _count_digits(keys: int, count: int, counts: int) -> None:
    """Count how many keys have each value of each digit."""
    for place in range(KEY_DIGITS * DIGIT_VALUES):
        store_i64(counts + 8 * place, 0)
    for index in range(count):
        key = load_i64(keys + 8 * index) >> _TOKEN_BITS
        for digit in range(KEY_DIGITS):
            place = counts + 8 * (DIGIT_VALUES * digit + (key & (DIGIT_VALUES - 1)))
            store_i64(place, load_i64(place) + 1)
            key >>= _DIGIT_BITS


@compiled
def _place_digits(counts: int, firsts: int, nexts: int) -> None:
    """Turn how many keys have each value of a digit into where they begin."""
    before = 0
    for value in range(DIGIT_VALUES):
        store_i64(firsts + 8 * value, before)
        store_i64(nexts + 8 * value, before)
        before += load_i64(counts + 8 * value)


@compiled
def _copy_keys(source: int, target: int, first: int, end: int) -> None:
    """Copy keys of a line, which are at the ends of their places in it."""
    for index in range(first, end):
        store_i64(target + 8 * index, load_i64(source + 8 * (index & (_LINE - 1))))


@compiled
def _sort_by_digit(keys: int, count: int, sorted_keys: int, shift: int, counts: int, memory: int) -> None:
    """Copy keys in the order of one digit, those of the same value in the order that they had.

    Keys are written a line at a time: single ones, to so many places in turn, would be slow to find theirs.
    """
    firsts, nexts, lines = memory + DIGIT_FIRSTS, memory + DIGIT_NEXTS, memory + DIGIT_LINES
    _place_digits(counts, firsts, nexts)
    for index in range(count):
        key = load_i64(keys + 8 * index)
        value = (key >> shift) & (DIGIT_VALUES - 1)
        line, place = lines + 8 * _LINE * value, load_i64(nexts + 8 * value)
        store_i64(line + 8 * (place & (_LINE - 1)), key)
        store_i64(nexts + 8 * value, place + 1)
        if place & (_LINE - 1) == _LINE - 1:
            first = place - (_LINE - 1)
            if first >= load_i64(firsts + 8 * value):
                store_f32x16(sorted_keys + 8 * first, load_f32x16(line))
            else:
                _copy_keys(line, sorted_keys, load_i64(firsts + 8 * value), place + 1)
    for value in range(DIGIT_VALUES):
        end = load_i64(nexts + 8 * value)
        first = max(end & ~(_LINE - 1), load_i64(firsts + 8 * value))
        _copy_keys(lines + 8 * _LINE * value, sorted_keys, first, end)


@compiled
def _sort(keys: int, count: int, spare: int, memory: int) -> int:
    """Sort keys, in order of tokens, by logits; returns where they are then."""
    _count_digits(keys, count, memory + DIGIT_COUNTS)
    for digit in range(KEY_DIGITS):
        counts, shift = memory + DIGIT_COUNTS + 8 * DIGIT_VALUES * digit, _TOKEN_BITS + _DIGIT_BITS * digit
        value = (load_i64(keys) >> shift) & (DIGIT_VALUES - 1)
        if load_i64(counts + 8 * value) < count:
            _sort_by_digit(keys, count, spare, shift, counts, memory)
            keys, spare = spare, keys
    return keys


@compiled
def _write_values(keys: int, count: int, top: int, values: int) -> None:
    """Write the logits of keys, float32."""
    for index in range(count):
        order = top - (load_i64(keys + 8 * index) >> _TOKEN_BITS)
        store_i32(values + 4 * index, order if order >= 0 else _LEAST_INT32 - order)


@compiled
def _add_up(values: int, count: int, most: float, temperature: float, sums: int, memory: int) -> None:
    """Write float64 sums of the shares of logits, each of all up to it."""
    for first in range(0, _whole(count), 16):
        store_shares(sums + 8 * first, values + 4 * first, most, temperature)
    if count > _whole(count):
        rest = _rest_of(values, count, memory + REST)
        store_shares(sums + 8 * _whole(count), rest, most, temperature)
    total = 0.0
    for index in range(count):
        total += load_f64(sums + 8 * index)
        store_f64(sums + 8 * index, total)


@compiled
def _first_at(sums: int, count: int, limit: float) -> int:
    """Return how many of ascending sums are below a limit."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if load_f64(sums + 8 * middle) < limit:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _first_above(sums: int, count: int, limit: float) -> int:
    """Return how many of ascending sums are at most a limit."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if load_f64(sums + 8 * middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _likely(values: int, count: int, most: float, least: float, memory: int, shares: int) -> int:
    """Return how many of logits in order have at least this share, but one at least."""
    low, high = 1, count
    while low < high:
        middle = (low + high) // 2
        store_shares(shares, _rest_of(values + 4 * middle, 1, memory + REST), most, 1.0)
        if load_f64(shares) >= least:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _left(way: int, values: int, count: int, most: float, sums: int, memory: int) -> int:
    """Return how many of so many logits in order are left to draw from, and write sums of their shares."""
    k, target, least = int(load_f64(way + WAY_TOP_K)), load_f64(way + WAY_TARGET), load_f64(way + WAY_MIN_P)
    left = min(count, k) if k > 0 else count
    likely = _likely(values, left, most, least, memory, sums) if least > 0 else left
    left = left if k > 0 else likely
    _add_up(values, left, most, 1.0, sums, memory)
    if k > 0:
        target = load_f64(way + WAY_TOP_P) * load_f64(sums + 8 * (left - 1))
    if target < math.inf:
        left = min(left, _first_at(sums, left, target) + 1)
    return min(left, likely)


@compiled
def _place_drawn(sums: int, count: int, uniform: float) -> int:
    """Return the place whose share holds `uniform`."""
    return min(_first_above(sums, count, uniform * load_f64(sums + 8 * (count - 1))), count - 1)


@compiled
def _narrows(way: int) -> bool:
    """Tell whether a token is not drawn from all, in the order of ids."""
    is_cut = load_f64(way + WAY_TOP_K) > 0 or load_f64(way + WAY_TARGET) < math.inf
    return bool(is_cut or load_f64(way + WAY_MIN_P) > 0)


@compiled
def _draw(way: int, values: int, size: int, memory: int, places: int) -> int:
    """Draw a token of a row, with arrays of so many places in memory."""
    keys = memory + ARRAYS
    spare, sums, ordered = keys + 8 * places, keys + 16 * places, keys + 24 * places
    most, temperature = _largest(values, size, memory), load_f64(way + WAY_TEMPERATURE)
    uniform = load_f64(way + WAY_UNIFORM)
    if not _narrows(way):
        _add_up(values, size, most, temperature, sums, memory)
        return _place_drawn(sums, size, uniform)
    _count(values, size, most, memory)
    top = _order(most, memory)
    count = _collect(values, size, _limit(most, _last_bucket(way, memory), memory), top, keys)
    keys = _sort(keys, count, spare, memory)
    _write_values(keys, count, top, ordered)
    left = _left(way, ordered, count, most, sums, memory)
    if temperature != 1.0:
        _add_up(ordered, left, most, temperature, sums, memory)
    return int(load_i64(keys + 8 * _place_drawn(sums, left, uniform)) & _TOKEN)


def draw_rows() -> Any:
    """Build the kernel that draws from rows of X, N wide: in one thread, and apart from any program."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        size, memory, places = load_i64(op + N), load_i64(op + DRAW_MEMORY), load_i64(op + DRAW_PLACES)
        for number in range(load_i64(op + DRAWN)):
            row = load_i64(load_i64(op + DRAWN_ROWS) + 8 * number)
            values = load_i64(op + X) + row * load_i64(op + X_STRIDE)
            way = load_i64(op + DRAW_WAYS) + 8 * WAY_NUMBERS * number
            token = _draw(way, values, size, memory, places)
            store_i32(load_i64(op + DRAWN_TOKENS) + 4 * number, token)

    return kernel
