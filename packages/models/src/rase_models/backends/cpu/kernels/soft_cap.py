"""Soft caps: cap * tanh(x / cap)."""

from typing import Any

from rase_models.backends.cpu.abi import SOFT_CAP, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import output_row, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    divide,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
    tanh,
)


@compiled
def cap_values(values: int, count: int, cap: float) -> None:
    """Cap `count` float32 at an address in place, and what pads them to a multiple of 16."""
    limit = splat(cap)
    for at in range(0, 4 * count, 64):
        store_f32x16(values + at, multiply(tanh(divide(load_f32x16(values + at), limit)), limit))


@compiled
def _cap_row(thread: int, op: int, context: int, row: int) -> None:
    cap_values(output_row(op, context, row), load_i64(op + N), load_f32(op + SOFT_CAP))


def soft_cap() -> Any:
    """Build the kernel that caps the rows of Y, N wide, in place."""
    return share(row_count, _cap_row, 4)
