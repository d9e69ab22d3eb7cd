"""Convolutions over the last few rows of a sequence, for every channel by itself.

The state is the last TAPS - 1 rows of X, float32. A unit of work is 16 channels of all rows of a sequence.
"""

from typing import Any

from rase_models.backends.cpu.abi import BIAS, TAPS, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.kernels.states import begins_sequence, clear_if_new, end_of_sequence, state_of
from rase_models.backends.cpu.simd import compiled, f32, fma, load_f32x16, load_i64, splat, store_f32x16


@compiled
def _before(op: int, context: int, state: int, first: int, row: int, offset: int, stride: int) -> Any:
    """Return 16 channels of a row of X, or of the state for a row before `first`."""
    if row >= first:
        return load_f32x16(input_row(op, context, row) + offset)
    return load_f32x16(state + (load_i64(op + TAPS) - 1 + row - first) * stride)


@compiled
def _convolve(thread: int, op: int, context: int, unit: int) -> None:
    rows, taps = row_count(op, context), load_i64(op + TAPS)
    vector = unit // rows
    first = unit - vector * rows
    if not begins_sequence(context, first):
        return
    end, offset, stride = end_of_sequence(context, first, rows), 64 * vector, 4 * load_i64(op + N)
    state = state_of(op, context, first) + offset
    clear_if_new(context, first, state, taps - 1, stride)
    for row in range(first, end):
        total = splat(f32(0.0))
        if load_i64(op + BIAS) != 0:
            total = load_f32x16(load_i64(op + BIAS) + offset)
        for tap in range(taps):
            x = _before(op, context, state, first, row - taps + 1 + tap, offset, stride)
            total = fma(x, load_f32x16(load_i64(op + W) + tap * stride + offset), total)
        store_f32x16(output_row(op, context, row) + offset, total)
    for index in range(taps - 1):
        kept = _before(op, context, state, first, end - taps + 1 + index, offset, stride)
        store_f32x16(state + index * stride, kept)


@compiled
def _unit_count(op: int, context: int) -> int:
    return int(row_count(op, context) * (load_i64(op + N) >> 4))


def short_conv() -> Any:
    """Build the kernel that convolves X with W, [TAPS][N], into Y; N is a multiple of 16."""
    return share(_unit_count, _convolve, 4)
