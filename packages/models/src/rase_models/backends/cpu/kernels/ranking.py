"""The likeliest tokens of rows of logits, and what all of their shares add up to."""

from typing import Any

from rase_models.backends.cpu.abi import X_STRIDE, N, X
from rase_models.backends.cpu.ranking_abi import (
    RANK_HEAP,
    RANK_INFINITE,
    RANK_REST,
    RANK_SUM_COUNT,
    RANK_SUMS,
    RANK_TOKENS,
    RANKED,
    RANKED_ROWS,
)
from rase_models.backends.cpu.simd import compiled, load_f32, load_i32, load_i64, store_i32, store_i64
from rase_models.backends.cpu.simd.ranking import add_shares, lanes_above, lanes_infinite

_LOW = 0xFFFFFFFF
MINUS_INFINITY = -0x800000
_MAGNITUDE = 0x7FFFFFFF
_EXPONENT = 0x7F800000


@compiled
def order_of(values: int, token: int) -> int:
    """Return a number that is larger the larger a logit is, the same for both zeros."""
    bits = int(load_i32(values + 4 * token))
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


@compiled
def _key(values: int, token: int) -> int:
    """Return what tokens are ranked by: their logits, both zeros alike, and the lower id first."""
    return (order_of(values, token) << 32) + (_LOW - token)


@compiled
def _sink(heap: int, count: int, place: int, key: int) -> None:
    """Put a key into a heap, the least on top, from a place downwards."""
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and load_i64(heap + 8 * child + 8) < load_i64(heap + 8 * child):
            child += 1
        if load_i64(heap + 8 * child) >= key:
            break
        store_i64(heap + 8 * place, load_i64(heap + 8 * child))
        place = child
    store_i64(heap + 8 * place, key)


@compiled
def _first(heap: int, count: int, values: int) -> None:
    """Begin with the first tokens."""
    for token in range(count):
        store_i64(heap + 8 * token, _key(values, token))
    for place in range(count // 2 - 1, -1, -1):
        _sink(heap, count, place, load_i64(heap + 8 * place))


@compiled
def _offer(heap: int, count: int, key: int) -> None:
    if key > load_i64(heap):
        _sink(heap, count, 0, key)


@compiled
def _collect(heap: int, count: int, values: int, size: int) -> None:
    """Leave the largest keys in the heap."""
    _first(heap, count, values)
    start = min((count + 15) & ~15, size)
    whole = start + ((size - start) & ~15)
    for token in range(count, start):
        _offer(heap, count, _key(values, token))
    for first in range(start, whole, 16):
        lanes = lanes_above(values + 4 * first, load_i64(heap) >> 32)
        if lanes != 0:
            for lane in range(16):
                if (lanes >> lane) & 1:
                    _offer(heap, count, _key(values, first + lane))
    for token in range(whole, size):
        _offer(heap, count, _key(values, token))


@compiled
def _write(heap: int, count: int, tokens: int) -> None:
    """Empty the heap, the largest key's token first."""
    for left in range(count - 1, -1, -1):
        store_i32(tokens + 4 * left, _LOW - (load_i64(heap) & _LOW))
        _sink(heap, left, 0, load_i64(heap + 8 * left))


@compiled
def _count_set(lanes: int) -> int:
    count = 0
    while lanes != 0:
        lanes &= lanes - 1
        count += 1
    return count


@compiled
def _infinite(values: int, size: int) -> int:
    """Return how many are no finite numbers."""
    count, whole = 0, size & ~15
    for first in range(0, whole, 16):
        count += _count_set(lanes_infinite(values + 4 * first))
    for token in range(whole, size):
        count += (int(load_i32(values + 4 * token)) & _EXPONENT) == _EXPONENT
    return count


@compiled
def _add_up(values: int, size: int, most: int, sums: int, rest: int) -> None:
    """Add up the shares, relative to that of the token `most`, in sums of every 64th token's."""
    largest = load_f32(values + 4 * most)
    for place in range(RANK_SUM_COUNT):
        store_i64(sums + 8 * place, 0)
    whole = size & ~15
    for first in range(0, whole, 16):
        add_shares(sums + 8 * (first % RANK_SUM_COUNT), values + 4 * first, largest)
    if whole < size:
        for lane in range(16):
            is_there = whole + lane < size
            bits = int(load_i32(values + 4 * (whole + lane))) if is_there else MINUS_INFINITY
            store_i32(rest + 4 * lane, bits)
        add_shares(sums + 8 * (whole % RANK_SUM_COUNT), rest, largest)


def rank_rows() -> Any:
    """Build the kernel that ranks rows of X, N wide: in one thread, and apart from any program."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        size, count, heap = load_i64(op + N), load_i64(op + RANKED), load_i64(op + RANK_HEAP)
        sums, rest = load_i64(op + RANK_SUMS), load_i64(op + RANK_REST)
        for row in range(load_i64(op + RANKED_ROWS)):
            values = load_i64(op + X) + row * load_i64(op + X_STRIDE)
            tokens = load_i64(op + RANK_TOKENS) + 4 * count * row
            _collect(heap, count, values, size)
            _write(heap, count, tokens)
            store_i64(load_i64(op + RANK_INFINITE) + 8 * row, _infinite(values, size))
            if sums != 0:
                _add_up(values, size, int(load_i32(tokens)), sums + 8 * RANK_SUM_COUNT * row, rest)

    return kernel
