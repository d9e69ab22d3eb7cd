"""xIELU: squares above 0, exponentials below."""

from typing import Any

from rase_models.backends.cpu.abi import ABOVE, BELOW, SLOPE, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    exp,
    f32,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    maximum,
    minimum,
    multiply,
    splat,
    store_f32x16,
    subtract,
)


@compiled
def _bend_row(thread: int, op: int, context: int, row: int) -> None:
    x, target, width = input_row(op, context, row), output_row(op, context, row), load_i64(op + N)
    above, below = splat(load_f32(op + ABOVE)), splat(load_f32(op + BELOW))
    slope, zero, one = splat(load_f32(op + SLOPE)), splat(f32(0.0)), splat(f32(1.0))
    for offset in range(0, 4 * width, 64):
        values = load_f32x16(x + offset)
        high, low = maximum(values, zero), minimum(values, zero)
        fallen = multiply(subtract(subtract(exp(low), one), low), below)
        store_f32x16(target + offset, fma(values, slope, fma(multiply(high, high), above, fallen)))


def xielu() -> Any:
    """Build the kernel that writes xIELU of X, N wide, to Y."""
    return share(row_count, _bend_row, 4)
