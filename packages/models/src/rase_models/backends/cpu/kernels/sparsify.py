"""What of a row is so many standard deviations above its mean."""

from typing import Any

from rase_models.backends.cpu.abi import SCALE, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    f32,
    first_lane,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    maximum,
    splat,
    square_root,
    store_f32x16,
    subtract,
    sum_lanes,
)


@compiled
def _sparsify_row(thread: int, op: int, context: int, row: int) -> None:
    x, target, width = input_row(op, context, row), output_row(op, context, row), load_i64(op + N)
    total, squares = splat(f32(0.0)), splat(f32(0.0))
    for offset in range(0, 4 * width, 64):
        total = add(total, load_f32x16(x + offset))
    mean = sum_lanes(total) / f32(width)
    for offset in range(0, 4 * width, 64):
        distance = subtract(load_f32x16(x + offset), splat(mean))
        squares = fma(distance, distance, squares)
    deviation = first_lane(square_root(splat(sum_lanes(squares) / f32(width - 1))))
    cut = splat(mean + load_f32(op + SCALE) * deviation)
    for offset in range(0, 4 * width, 64):
        above = subtract(load_f32x16(x + offset), cut)
        store_f32x16(target + offset, maximum(above, splat(f32(0.0))))


def sparsify() -> Any:
    """Build the kernel that writes to Y by how much X, N wide, is above its mean and SCALE deviations."""
    return share(row_count, _sparsify_row, 4)
