"""Rotary positions: pairs of elements of a head turn by an angle that grows with the position.

The table has a row per position: the cosines of all pairs, then their sines, float32. Whether 16 pairs are
turned together or one by one, a pair is computed alike.
"""

from typing import Any

from rase_models.backends.cpu.abi import HEADS, ROPE_DIMENSIONS, ROPE_HALVES, ROPE_TABLE, X_STRIDE, K, X
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import position_of, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    even_lanes,
    fma,
    fma_f32,
    interleave_high,
    interleave_low,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    negate,
    odd_lanes,
    store_f32,
    store_f32x16,
)


@compiled
def _turn_halves(x: int, half: int, cosines: int, sines: int) -> None:
    """Turn the pairs (i, i + half) of one head in place."""
    whole = half & ~15
    for pair in range(0, whole, 16):
        a, b = load_f32x16(x + 4 * pair), load_f32x16(x + 4 * (pair + half))
        c, s = load_f32x16(cosines + 4 * pair), load_f32x16(sines + 4 * pair)
        store_f32x16(x + 4 * pair, fma(a, c, negate(multiply(b, s))))
        store_f32x16(x + 4 * (pair + half), fma(a, s, multiply(b, c)))
    for pair in range(whole, half):
        _turn_pair(
            x + 4 * pair, x + 4 * (pair + half), load_f32(cosines + 4 * pair), load_f32(sines + 4 * pair)
        )


@compiled
def _turn_adjacent(x: int, half: int, cosines: int, sines: int) -> None:
    """Turn the pairs (2i, 2i + 1) of one head in place."""
    whole = half & ~15
    for pair in range(0, whole, 16):
        low, high = load_f32x16(x + 8 * pair), load_f32x16(x + 8 * pair + 64)
        a, b = even_lanes(low, high), odd_lanes(low, high)
        c, s = load_f32x16(cosines + 4 * pair), load_f32x16(sines + 4 * pair)
        a, b = fma(a, c, negate(multiply(b, s))), fma(a, s, multiply(b, c))
        store_f32x16(x + 8 * pair, interleave_low(a, b))
        store_f32x16(x + 8 * pair + 64, interleave_high(a, b))
    for pair in range(whole, half):
        _turn_pair(x + 8 * pair, x + 8 * pair + 4, load_f32(cosines + 4 * pair), load_f32(sines + 4 * pair))


@compiled
def _turn_pair(first: int, second: int, c: float, s: float) -> None:
    a, b = load_f32(first), load_f32(second)
    store_f32(first, fma_f32(a, c, -(b * s)))
    store_f32(second, fma_f32(a, s, b * c))


@compiled
def turn(x: int, position: int, op: int) -> None:
    """Turn one head in place by a position, as the op's row says."""
    half = load_i64(op + ROPE_DIMENSIONS) >> 1
    cosines = load_i64(op + ROPE_TABLE) + position * half * 8
    if load_i64(op + ROPE_HALVES):
        _turn_halves(x, half, cosines, cosines + 4 * half)
    else:
        _turn_adjacent(x, half, cosines, cosines + 4 * half)


@compiled
def _rotate_row(thread: int, op: int, context: int, row: int) -> None:
    x = load_i64(op + X) + row * load_i64(op + X_STRIDE)
    position = position_of(context, row)
    for _ in range(load_i64(op + HEADS)):
        turn(x, position, op)
        x += 4 * load_i64(op + K)


def rotate() -> Any:
    """Build the kernel that turns all heads of X in place; K is the length of a head."""
    return share(row_count, _rotate_row, 4)
