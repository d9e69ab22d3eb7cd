"""The first half of a feed-forward network in one op: activation(x @ gate.T) * (x @ up.T)."""

from typing import Any

from rase_models.backends.cpu.abi import (
    FLAGS,
    OUTPUT_RECORDS,
    W2,
    WRITE_FLOATS,
    WRITE_RECORDS,
    N,
    W,
    X,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.gated_activation import gate_named
from rase_models.backends.cpu.kernels.pairs import PAIR_COLUMNS, PAIR_LINE, multiply_pair
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import output_row, row_count, scratch
from rase_models.backends.cpu.shapes import GROUP_LINE
from rase_models.backends.cpu.simd import compiled, load_f32x16, load_i64, store_f32x16


@compiled
def _pair_count(op: int, context: int) -> int:
    return int(load_i64(op + N) // PAIR_COLUMNS if row_count(op, context) > 0 else 0)


def gated_linear(format_name: str, activation: str) -> Any:
    """Build the kernel for weights W and W2, both N outputs of K columns; N is a multiple of 32."""
    form, gate_function = form_named(format_name), gate_named(activation)
    is_quantised = form.is_quantised

    @compiled
    def gated(gate: int, up: int) -> Any:
        return gate_function(load_f32x16(gate), load_f32x16(up))

    @compiled
    def write_pair(op: int, context: int, pair: int, row: int, gate: int, up: int) -> None:
        low, high = gated(gate, up), gated(gate + GROUP_LINE, up + GROUP_LINE)
        if load_i64(op + FLAGS) & WRITE_FLOATS:
            y = output_row(op, context, row) + PAIR_LINE * pair
            store_f32x16(y, low)
            store_f32x16(y + GROUP_LINE, high)
        if load_i64(op + FLAGS) & WRITE_RECORDS:
            blocks = load_i64(op + N) // PAIR_COLUMNS
            write_record(load_i64(op + OUTPUT_RECORDS), row_count(op, context), blocks, row, pair, low, high)

    multiply_rows = multiply_pair(form, form, write_pair)

    @compiled
    def multiply_unit(thread: int, op: int, context: int, pair: int) -> None:
        x = records_of(thread, op, context) if is_quantised else load_i64(op + X)
        gate, up, products = load_i64(op + W), load_i64(op + W2), scratch(thread, context)
        multiply_rows(op, context, pair, row_count(op, context), gate, up, x, x, products)

    return share(_pair_count, multiply_unit, 4)
