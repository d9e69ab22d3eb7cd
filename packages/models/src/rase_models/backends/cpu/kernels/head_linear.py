"""Multiplication of every head by a matrix of its own."""

from typing import Any

from rase_models.backends.cpu.abi import EXPERT_NBYTES, HEADS, X_STRIDE, Y_STRIDE, K, N, W, X
from rase_models.backends.cpu.activations import PANEL_ROWS, RECORD_COLUMNS, RECORD_ROW_NBYTES
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.matrices import multiply_group
from rase_models.backends.cpu.kernels.records import records_of
from rase_models.backends.cpu.kernels.rows import output_row, row_count
from rase_models.backends.cpu.shapes import GROUP_LINE
from rase_models.backends.cpu.simd import compiled, load_i64


@compiled
def _group_count(op: int, context: int) -> int:
    groups = load_i64(op + HEADS) * (load_i64(op + N) // GROUP_ROWS)
    return int(groups) if row_count(op, context) > 0 else 0


@compiled
def _records_of_head(records: int, op: int, head: int, row: int, alone: int) -> int:
    """Return where a head's records of a panel of rows begin; a row's records cover all heads."""
    panel, blocks = 1 if alone else PANEL_ROWS, load_i64(op + K) // RECORD_COLUMNS
    place = (row // PANEL_ROWS) * load_i64(op + HEADS) * blocks + head * blocks
    return int(records + place * panel * RECORD_ROW_NBYTES)


def head_linear(format_name: str) -> Any:
    """Build the kernel that multiplies head h of X or RECORDS, K wide, by matrix h of W into Y, N wide."""
    form = form_named(format_name)
    is_quantised, columns, block_nbytes = form.is_quantised, form.columns, form.nbytes
    multiply_rows = multiply_group(form)

    @compiled
    def multiply_unit(thread: int, op: int, context: int, unit: int) -> None:
        groups, width = load_i64(op + N) // GROUP_ROWS, load_i64(op + K)
        head = unit // groups
        group, blocks, rows = unit - head * groups, width // columns, row_count(op, context)
        weights = load_i64(op + W) + head * load_i64(op + EXPERT_NBYTES) + group * blocks * block_nbytes
        x_stride, y_stride, alone = load_i64(op + X_STRIDE), load_i64(op + Y_STRIDE), int(rows == 1)
        for row in range(0, rows, PANEL_ROWS):
            if is_quantised:
                x = _records_of_head(records_of(thread, op, context), op, head, row, alone)
            else:
                x = load_i64(op + X) + row * x_stride + 4 * head * width
            y = output_row(op, context, row) + 4 * head * load_i64(op + N) + GROUP_LINE * group
            last = min(rows - row, PANEL_ROWS)
            multiply_rows(weights, blocks, x, x_stride, alone, 0, last, y, y_stride, 0)

    return share(_group_count, multiply_unit, 4)
