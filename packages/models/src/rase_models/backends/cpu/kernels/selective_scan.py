"""Scans over the rows of a sequence, where every channel has a state of a few values of its own.

A state is float32 [K][N], N channels beside each other. A unit of work is 16 channels, for all rows of a
sequence.
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    BIAS,
    IN_2,
    IN_2_STRIDE,
    IN_3,
    IN_3_STRIDE,
    STEP_SIZES,
    STEP_SIZES_STRIDE,
    K,
    N,
    W,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.kernels.states import begins_sequence, clear_if_new, end_of_sequence, state_of
from rase_models.backends.cpu.simd import (
    compiled,
    exp,
    f32,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


@compiled
def _unit_count(op: int, context: int) -> int:
    return int(row_count(op, context) * (load_i64(op + N) >> 4))


@compiled
def _scan_row(op: int, row: int, offset: int, x: Any, state: int) -> Any:
    """Move the states of 16 channels on by a row, and return what c reads of them."""
    stride = 4 * load_i64(op + N)
    step = load_f32x16(load_i64(op + STEP_SIZES) + row * load_i64(op + STEP_SIZES_STRIDE) + offset)
    b = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE)
    c = load_i64(op + IN_3) + row * load_i64(op + IN_3_STRIDE)
    decay, added, total = load_i64(op + W) + offset, multiply(x, step), splat(f32(0.0))
    for index in range(load_i64(op + K)):
        keep = exp(multiply(step, load_f32x16(decay + index * stride)))
        at = state + index * stride
        h = fma(added, splat(load_f32(b + 4 * index)), multiply(load_f32x16(at), keep))
        store_f32x16(at, h)
        total = fma(h, splat(load_f32(c + 4 * index)), total)
    return total


@compiled
def _scan(thread: int, op: int, context: int, unit: int) -> None:
    rows = row_count(op, context)
    vector = unit // rows
    first = unit - vector * rows
    if not begins_sequence(context, first):
        return
    offset = 64 * vector
    state = state_of(op, context, first) + offset
    clear_if_new(context, first, state, load_i64(op + K), 4 * load_i64(op + N))
    skip = load_f32x16(load_i64(op + BIAS) + offset)
    for row in range(first, end_of_sequence(context, first, rows)):
        x = load_f32x16(input_row(op, context, row) + offset)
        y = fma(x, skip, _scan_row(op, row, offset, x, state))
        store_f32x16(output_row(op, context, row) + offset, y)


def selective_scan() -> Any:
    """Build the kernel of a state space with N channels: decays W [K][N], b and c (IN_2, IN_3) K wide."""
    return share(_unit_count, _scan, 4)
