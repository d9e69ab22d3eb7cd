"""Sums of the parts of a row, with weights that a run has computed."""

from typing import Any

from rase_models.backends.cpu.abi import EPSILON, HEADS, IN_2, IN_2_STRIDE, KEY_HEADS, W_STRIDE, K, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.row_parts import part_count
from rase_models.backends.cpu.kernels.rows import input_row, output_row
from rase_models.backends.cpu.simd import (
    compiled,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    splat,
    store_f32x16,
)


@compiled
def _mix_part(thread: int, op: int, context: int, unit: int) -> None:
    parts, others, width = load_i64(op + HEADS), load_i64(op + KEY_HEADS), 4 * load_i64(op + K)
    row = unit // parts
    part = unit - row * parts
    x, target = input_row(op, context, row), output_row(op, context, row) + part * width
    base = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE) + part * width
    weights = load_i64(op + W) + row * load_i64(op + W_STRIDE) + 4 * part * others
    added = load_f32(op + EPSILON)
    for offset in range(0, width, 64):
        total = load_f32x16(base + offset)
        for other in range(others):
            weight = splat(load_f32(weights + 4 * other) + added)
            total = fma(load_f32x16(x + other * width + offset), weight, total)
        store_f32x16(target + offset, total)


def mix_parts() -> Any:
    """Build the kernel that adds KEY_HEADS parts of X, times W + EPSILON, to each of HEADS parts of IN_2."""
    return share(part_count, _mix_part, 4)
