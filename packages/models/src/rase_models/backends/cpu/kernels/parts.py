"""Copies of parts of rows."""

from typing import Any

from rase_models.backends.cpu.abi import FROM_FIRST, FROM_STRIDE, HEADS, TO_FIRST, TO_STRIDE, K
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    compiled,
    load_f32,
    load_f32x16,
    load_i64,
    store_f32,
    store_f32x16,
)


@compiled
def _copy(source: int, target: int, count: int) -> None:
    """Copy `count` float32 and nothing behind them."""
    whole = count & ~15
    for at in range(0, whole, 16):
        store_f32x16(target + 4 * at, load_f32x16(source + 4 * at))
    for at in range(whole, count):
        store_f32(target + 4 * at, load_f32(source + 4 * at))


@compiled
def _copy_row(thread: int, op: int, context: int, row: int) -> None:
    source = input_row(op, context, row) + load_i64(op + FROM_FIRST)
    target = output_row(op, context, row) + load_i64(op + TO_FIRST)
    for _ in range(load_i64(op + HEADS)):
        _copy(source, target, load_i64(op + K))
        source += load_i64(op + FROM_STRIDE)
        target += load_i64(op + TO_STRIDE)


def copy_parts() -> Any:
    """Build the kernel that copies K values of each of HEADS parts of X into the parts of Y."""
    return share(row_count, _copy_row, 4)
