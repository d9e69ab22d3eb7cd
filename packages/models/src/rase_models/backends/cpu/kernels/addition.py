"""Sums of rows."""

from typing import Any

from rase_models.backends.cpu.abi import SCALE, W_STRIDE, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


@compiled
def _add_row(thread: int, op: int, context: int, row: int) -> None:
    x, y = input_row(op, context, row), load_i64(op + W) + row * load_i64(op + W_STRIDE)
    target, scale = output_row(op, context, row), splat(load_f32(op + SCALE))
    for offset in range(0, 4 * load_i64(op + N), 64):
        total = add(load_f32x16(x + offset), load_f32x16(y + offset))
        store_f32x16(target + offset, multiply(total, scale))


def add_rows() -> Any:
    """Build the kernel that writes (X + W) * SCALE to Y, N wide."""
    return share(row_count, _add_row, 4)
