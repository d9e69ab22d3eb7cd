"""Where activation records lie: panels of one row when a run has one, of 8 rows when it has more."""

from typing import Any

from rase_models.backends.cpu.abi import PRIVATE_OFFSET, PRIVATE_RECORDS, PRIVATE_STRIDE, RECORDS
from rase_models.backends.cpu.activations import PANEL_ROWS, RECORD_ROW_NBYTES
from rase_models.backends.cpu.kernels.rows import is_private
from rase_models.backends.cpu.simd import compiled, load_f32x16, load_i64, quantise32


@compiled
def records_of(thread: int, op: int, context: int) -> int:
    """Return the address of an op's records: everyone's, or the thread's own when they are private."""
    if is_private(op, context):
        private = load_i64(context + PRIVATE_RECORDS) + thread * load_i64(context + PRIVATE_STRIDE)
        return int(private + load_i64(op + PRIVATE_OFFSET))
    return int(load_i64(op + RECORDS))


@compiled
def write_record(records: int, rows: int, blocks: int, row: int, block: int, low: Any, high: Any) -> None:
    """Quantise the 32 values of a row's block into its record; `blocks` is the number of them in a row."""
    if rows == 1:
        quantise32(low, high, records + block * RECORD_ROW_NBYTES, 0, 1)
    else:
        panel = (row // PANEL_ROWS) * blocks + block
        record = records + panel * (PANEL_ROWS * RECORD_ROW_NBYTES)
        quantise32(low, high, record, row % PANEL_ROWS, PANEL_ROWS)


@compiled
def quantise_values(
    records: int, rows: int, blocks: int, row: int, block: int, source: int, count: int
) -> None:
    """Quantise `count` float32 at an address, a multiple of 32, into a row's records from `block` on."""
    for i in range(count >> 5):
        low, high = load_f32x16(source + 128 * i), load_f32x16(source + 128 * i + 64)
        write_record(records, rows, blocks, row, block + i, low, high)
