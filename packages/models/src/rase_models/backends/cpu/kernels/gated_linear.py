"""The first half of a feed-forward network in one op: activation(x @ gate.T) * (x @ up.T)."""

from typing import Any

from rase_models.backends.cpu.abi import (
    FLAGS,
    OUTPUT_RECORDS,
    W2,
    WRITE_FLOATS,
    WRITE_RECORDS,
    X_STRIDE,
    K,
    N,
    W,
    X,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.gated_activation import gate_named
from rase_models.backends.cpu.kernels.matrices import multiply_group
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import output_row, row_count, scratch
from rase_models.backends.cpu.shapes import GATED_ROW_BLOCK, GROUP_LINE
from rase_models.backends.cpu.simd import compiled, load_f32x16, load_i64, store_f32x16

PAIR_COLUMNS = 32
"""Outputs of a unit of work: two groups, whose results make one block of a record."""
_LINE = 2 * GROUP_LINE


@compiled
def _pair_count(op: int, context: int) -> int:
    return int(load_i64(op + N) // PAIR_COLUMNS if row_count(op, context) > 0 else 0)


def gated_linear(format_name: str, activation: str) -> Any:
    """Build the kernel for weights W and W2, both N outputs of K columns; N is a multiple of 32."""
    form, gate_function = form_named(format_name), gate_named(activation)
    is_quantised, columns, block_nbytes = form.is_quantised, form.columns, form.nbytes
    multiply_rows = multiply_group(form)

    @compiled
    def gated(gate: int, up: int) -> Any:
        return gate_function(load_f32x16(gate), load_f32x16(up))

    @compiled
    def write_pair(op: int, context: int, pair: int, row: int, gate: int, up: int) -> None:
        low, high = gated(gate, up), gated(gate + GROUP_LINE, up + GROUP_LINE)
        if load_i64(op + FLAGS) & WRITE_FLOATS:
            y = output_row(op, context, row) + _LINE * pair
            store_f32x16(y, low)
            store_f32x16(y + GROUP_LINE, high)
        if load_i64(op + FLAGS) & WRITE_RECORDS:
            blocks = load_i64(op + N) // PAIR_COLUMNS
            write_record(load_i64(op + OUTPUT_RECORDS), row_count(op, context), blocks, row, pair, low, high)

    @compiled
    def multiply_pair(thread: int, op: int, context: int, pair: int) -> None:
        rows, blocks = row_count(op, context), load_i64(op + K) // columns
        x = records_of(thread, op, context) if is_quantised else load_i64(op + X)
        x_stride, alone = load_i64(op + X_STRIDE), int(rows == 1)
        gates = scratch(thread, context)
        ups, group_nbytes = gates + GATED_ROW_BLOCK * _LINE, blocks * block_nbytes
        for row in range(0, rows, GATED_ROW_BLOCK):
            end = min(rows, row + GATED_ROW_BLOCK)
            for half in range(2):
                at = (2 * pair + half) * group_nbytes
                gate, up = gates + GROUP_LINE * half, ups + GROUP_LINE * half
                multiply_rows(load_i64(op + W) + at, blocks, x, x_stride, alone, row, end, gate, _LINE, 0)
                multiply_rows(load_i64(op + W2) + at, blocks, x, x_stride, alone, row, end, up, _LINE, 0)
            for r in range(row, end):
                offset = (r - row) * _LINE
                write_pair(op, context, pair, r, gates + offset, ups + offset)

    return share(_pair_count, multiply_pair, 4)
