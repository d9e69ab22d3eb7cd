"""The walk of a gated multiplication over blocks of rows, for one pair of groups of 16 outputs."""

from typing import Any

from rase_models.backends.cpu.abi import X_STRIDE, K
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.kernels.matrices import multiply_group
from rase_models.backends.cpu.packing import WeightFormat
from rase_models.backends.cpu.shapes import GATED_ROW_BLOCK, GROUP_LINE
from rase_models.backends.cpu.simd import compiled, load_i64

PAIR_COLUMNS = 2 * GROUP_ROWS
"""Outputs of a unit of work: two groups, whose results make one block of a record."""
PAIR_LINE = 2 * GROUP_LINE
"""Bytes of the outputs of a pair for one row."""


def multiply_pair(gate_form: WeightFormat, up_form: WeightFormat, write: Any, *, same: bool = False) -> Any:
    """Return the compiled function that multiplies rows by a pair of groups of two matrices.

    It is multiply(op, place, pair, rows, gate, up, gate_x, up_x, products): the matrices begin at `gate` and
    `up`, of K columns, and the rows at `gate_x` and `up_x`, as records or as float32 rows X_STRIDE apart;
    `products` is scratch memory. What it makes of each row goes to the compiled function write(op, place,
    pair, row, gates, ups), as the addresses of a pair of outputs. Where up is the `same` matrix as the
    gate, it is multiplied by once.
    """
    multiply_gate, multiply_up = multiply_group(gate_form), multiply_group(up_form)
    gate_nbytes, gate_columns = gate_form.nbytes, gate_form.columns
    up_nbytes, up_columns = up_form.nbytes, up_form.columns

    @compiled
    def multiply(
        op: int, place: int, pair: int, rows: int, gate: int, up: int, gate_x: int, up_x: int, products: int
    ) -> None:
        stride, alone, ups = load_i64(op + X_STRIDE), int(rows == 1), products + GATED_ROW_BLOCK * PAIR_LINE
        gate_blocks, up_blocks = load_i64(op + K) // gate_columns, load_i64(op + K) // up_columns
        for row in range(0, rows, GATED_ROW_BLOCK):
            end = min(rows, row + GATED_ROW_BLOCK)
            for half in range(2):
                at, to = 2 * pair + half, GROUP_LINE * half
                w = gate + at * gate_blocks * gate_nbytes
                multiply_gate(w, gate_blocks, gate_x, stride, alone, row, end, products + to, PAIR_LINE, 0)
                if not same:
                    w = up + at * up_blocks * up_nbytes
                    multiply_up(w, up_blocks, up_x, stride, alone, row, end, ups + to, PAIR_LINE, 0)
            for r in range(row, end):
                offset = (r - row) * PAIR_LINE
                write(op, place, pair, r, products + offset, (products if same else ups) + offset)

    return multiply
