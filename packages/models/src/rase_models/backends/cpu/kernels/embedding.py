"""Rows of a packed matrix, looked up by token."""

from typing import Any

from rase_models.backends.cpu.abi import POSITIONS, SCALE, TOKENS, K, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.rows import row_count, scratch
from rase_models.backends.cpu.packing import row
from rase_models.backends.cpu.simd import (
    compiled,
    f32,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


def embed(format_name: str, by_position: int = 0) -> Any:
    """Build the kernel that looks rows of W up, K wide, by token or position, and scales them."""
    form = form_named(format_name)
    unpack, columns = row(form), form.columns
    indices = POSITIONS if by_position else TOKENS

    @compiled
    def look_up(thread: int, op: int, context: int, row: int) -> None:
        index = int(load_i32(load_i64(context + indices) + 4 * row))
        values, width = scratch(thread, context), load_i64(op + K)
        store_f32x16(
            values + 4 * ((width - 1) & ~15), splat(f32(0.0))
        )  # the padding of a last, partial vector
        unpack(load_i64(op + W), index, width // columns, values)
        scale = splat(load_f32(op + SCALE))
        for offset in range(0, 4 * width, 64):
            store_f32x16(values + offset, multiply(load_f32x16(values + offset), scale))
        write_values(thread, op, context, row, 0, values, load_i64(op + N))

    return share(row_count, look_up, 4)
