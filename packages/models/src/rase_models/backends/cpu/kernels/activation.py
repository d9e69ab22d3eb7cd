"""Activations that no gate multiplies."""

from typing import Any

from rase_models.backends.cpu.abi import BIAS, FLAGS, WRITE_FLOATS, WRITE_RECORDS, N
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.gated_activation import ACTIVATIONS
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import add, compiled, load_f32x16, load_i64, store_f32x16


def activate(activation: str) -> Any:
    """Build the kernel that writes activation(X + BIAS), N wide, as float32 or records."""
    activate_one = ACTIVATIONS[activation]

    @compiled
    def activated(x: int, bias: int, offset: int) -> Any:
        values = load_f32x16(x + offset)
        return activate_one(add(values, load_f32x16(bias + offset)) if bias != 0 else values)

    @compiled
    def row_of(thread: int, op: int, context: int, row: int) -> None:
        x, target = input_row(op, context, row), output_row(op, context, row)
        width, flags, bias = load_i64(op + N), load_i64(op + FLAGS), load_i64(op + BIAS)
        if flags & WRITE_FLOATS:
            for offset in range(0, 4 * width, 64):
                store_f32x16(target + offset, activated(x, bias, offset))
        if flags & WRITE_RECORDS:
            records, rows, blocks = records_of(thread, op, context), row_count(op, context), width >> 5
            for block in range(blocks):
                low, high = activated(x, bias, 128 * block), activated(x, bias, 128 * block + 64)
                write_record(records, rows, blocks, row, block, low, high)

    return share(row_count, row_of, 4)
