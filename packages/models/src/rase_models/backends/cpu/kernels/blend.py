"""Blends of two buffers: x + (y - x) * (weight + gate)."""

from typing import Any

from rase_models.backends.cpu.abi import HEADS, IN_2, IN_2_STRIDE, IN_3, IN_3_STRIDE, K, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.row_parts import part_count
from rase_models.backends.cpu.kernels.rows import input_row, output_row
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    f32,
    fma,
    load_f32x16,
    load_i64,
    splat,
    store_f32x16,
    subtract,
)


@compiled
def _share_of(weight: int, gate: int, offset: int) -> Any:
    """Return 16 values of the weight, an address or 0, plus the gate, an address or 0."""
    total = splat(f32(0.0))
    if weight != 0:
        total = load_f32x16(weight + offset)
    if gate != 0:
        total = add(total, load_f32x16(gate + offset))
    return total


@compiled
def _blend_part(thread: int, op: int, context: int, unit: int) -> None:
    parts, width = load_i64(op + HEADS), 4 * load_i64(op + K)
    row = unit // parts
    first = (unit - row * parts) * width
    x, target = input_row(op, context, row), output_row(op, context, row) + first
    y = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE)
    weight, gate = load_i64(op + W), load_i64(op + IN_3)
    if weight != 0:
        weight += first
    if gate != 0:
        gate += row * load_i64(op + IN_3_STRIDE) + first
    for offset in range(0, width, 64):
        a = load_f32x16(x + offset)
        change = subtract(load_f32x16(y + offset), a)
        store_f32x16(target + offset, fma(change, _share_of(weight, gate, offset), a))


def blend() -> Any:
    """Build the kernel that writes HEADS parts of Y, K wide, between X and IN_2 by W and IN_3."""
    return share(part_count, _blend_part, 4)
