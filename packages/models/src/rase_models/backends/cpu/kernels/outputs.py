"""How ops that make values for matrices leave them: as float32, as activation records, or both."""

from rase_models.backends.cpu.abi import FLAGS, WRITE_FLOATS, WRITE_RECORDS, N
from rase_models.backends.cpu.kernels.records import quantise_values, records_of
from rase_models.backends.cpu.kernels.rows import output_row, row_count
from rase_models.backends.cpu.simd import compiled, load_f32x16, load_i64, store_f32x16


@compiled
def write_values(thread: int, op: int, context: int, row: int, column: int, source: int, count: int) -> None:
    """Write `count` float32 at an address to a row's columns; N is the width of the row.

    As records, column and count must be multiples of 32, otherwise of 16.
    """
    flags = load_i64(op + FLAGS)
    if flags & WRITE_FLOATS:
        target = output_row(op, context, row) + 4 * column
        for offset in range(0, 4 * count, 64):
            store_f32x16(target + offset, load_f32x16(source + offset))
    if flags & WRITE_RECORDS:
        blocks, rows = load_i64(op + N) >> 5, row_count(op, context)
        quantise_values(records_of(thread, op, context), rows, blocks, row, column >> 5, source, count)
