"""Rows times a vector and a number."""

from typing import Any

from rase_models.backends.cpu.abi import SCALE, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


@compiled
def _scale_row(thread: int, op: int, context: int, row: int) -> None:
    x, target = input_row(op, context, row), output_row(op, context, row)
    weight, factor = load_i64(op + W), splat(load_f32(op + SCALE))
    for offset in range(0, 4 * load_i64(op + N), 64):
        values = load_f32x16(x + offset)
        if weight != 0:
            values = multiply(values, load_f32x16(weight + offset))
        store_f32x16(target + offset, multiply(values, factor))


def scale() -> Any:
    """Build the kernel that writes X * W * SCALE to Y, N wide; without W, X * SCALE."""
    return share(row_count, _scale_row, 4)
