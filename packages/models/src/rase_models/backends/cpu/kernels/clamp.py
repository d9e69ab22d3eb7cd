"""Values held between two bounds."""

from typing import Any

from rase_models.backends.cpu.abi import ABOVE, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    load_f32,
    load_f32x16,
    load_i64,
    maximum,
    minimum,
    negate,
    splat,
    store_f32x16,
)


@compiled
def _clamp_row(thread: int, op: int, context: int, row: int) -> None:
    x, target, width = input_row(op, context, row), output_row(op, context, row), load_i64(op + N)
    most = splat(load_f32(op + ABOVE))
    least = negate(most)
    for offset in range(0, 4 * width, 64):
        store_f32x16(target + offset, maximum(minimum(load_f32x16(x + offset), most), least))


def clamp() -> Any:
    """Build the kernel that writes X, N wide, to Y, with no value beyond ABOVE on either side of 0."""
    return share(row_count, _clamp_row, 4)
