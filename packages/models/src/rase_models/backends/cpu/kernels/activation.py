"""Activations that no gate multiplies."""

from typing import Any

from rase_models.backends.cpu.abi import FLAGS, WRITE_FLOATS, WRITE_RECORDS, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.gated_activation import ACTIVATIONS
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import compiled, load_f32x16, load_i64, store_f32x16


def activate(activation: str) -> Any:
    """Build the kernel that writes activation(X), N wide, as float32 or records."""
    activated = ACTIVATIONS[activation]

    @compiled
    def row_of(thread: int, op: int, context: int, row: int) -> None:
        x, target = input_row(op, context, row), output_row(op, context, row)
        width, flags = load_i64(op + N), load_i64(op + FLAGS)
        if flags & WRITE_FLOATS:
            for offset in range(0, 4 * width, 64):
                store_f32x16(target + offset, activated(load_f32x16(x + offset)))
        if flags & WRITE_RECORDS:
            records, rows, blocks = records_of(thread, op, context), row_count(op, context), width >> 5
            for block in range(blocks):
                at = x + 128 * block
                low, high = activated(load_f32x16(at)), activated(load_f32x16(at + 64))
                write_record(records, rows, blocks, row, block, low, high)

    return share(row_count, row_of, 4)
