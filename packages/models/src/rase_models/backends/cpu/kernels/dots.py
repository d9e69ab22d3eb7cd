"""Values of every head times the dot product of its query and key, added to rows."""

from typing import Any

from rase_models.backends.cpu.abi import (
    BETAS,
    BETAS_STRIDE,
    HEADS,
    IN_2,
    IN_2_STRIDE,
    IN_3,
    IN_3_STRIDE,
    K,
    W,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.row_parts import part_count
from rase_models.backends.cpu.kernels.rows import input_row, output_row
from rase_models.backends.cpu.simd import (
    compiled,
    f32,
    fma,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
    sum_lanes,
)


@compiled
def _dot(q: int, k: int, weight: int, width: int) -> Any:
    """Return sum(q * k * weight) in all lanes."""
    total = splat(f32(0.0))
    for offset in range(0, 4 * width, 64):
        weighed = multiply(load_f32x16(k + offset), load_f32x16(weight + offset))
        total = fma(load_f32x16(q + offset), weighed, total)
    return splat(sum_lanes(total))


@compiled
def _add_part(thread: int, op: int, context: int, unit: int) -> None:
    parts, width = load_i64(op + HEADS), load_i64(op + K)
    row = unit // parts
    first = 4 * width * (unit - row * parts)
    q = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE) + first
    k = load_i64(op + IN_3) + row * load_i64(op + IN_3_STRIDE) + first
    v = load_i64(op + BETAS) + row * load_i64(op + BETAS_STRIDE) + first
    x, target = input_row(op, context, row) + first, output_row(op, context, row) + first
    dot = _dot(q, k, load_i64(op + W) + first, width)
    for offset in range(0, 4 * width, 64):
        store_f32x16(target + offset, fma(load_f32x16(v + offset), dot, load_f32x16(x + offset)))


def add_dots() -> Any:
    """Build the kernel that adds to HEADS parts of X, K wide: BETAS times the dot of IN_2, IN_3 and W."""
    return share(part_count, _add_part, 4)
