"""Parts of rows at the length of another buffer."""

from typing import Any

from rase_models.backends.cpu.abi import EPSILON, HEADS, IN_2, IN_2_STRIDE, K
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.row_parts import part_count, sum_of_squares
from rase_models.backends.cpu.kernels.rows import input_row, output_row
from rase_models.backends.cpu.simd import (
    compiled,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    square_root,
    store_f32x16,
)


@compiled
def _rescale_part(thread: int, op: int, context: int, unit: int) -> None:
    parts, width = load_i64(op + HEADS), load_i64(op + K)
    row = unit // parts
    first = 4 * width * (unit - row * parts)
    x, target = input_row(op, context, row) + first, output_row(op, context, row) + first
    like = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE)
    found = sum_of_squares(x, width) + load_f32(op + EPSILON)
    factor = square_root(splat(sum_of_squares(like, width) / found))
    for offset in range(0, 4 * width, 64):
        store_f32x16(target + offset, multiply(load_f32x16(x + offset), factor))


def rescale() -> Any:
    """Build the kernel that gives HEADS parts of X, K wide, the length of IN_2."""
    return share(part_count, _rescale_part, 4)
