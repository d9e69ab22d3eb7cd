"""Matrix multiplication by packed weights, plain or into a residual."""

from typing import Any

from rase_models.backends.cpu.abi import ACCUMULATE, BIAS, FLAGS, SCALE, X_STRIDE, Y_STRIDE, K, N, W, X
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.kernels.claims import chunk_size, claim, finish
from rase_models.backends.cpu.kernels.forms import form_named
from rase_models.backends.cpu.kernels.matrices import multiply_group
from rase_models.backends.cpu.kernels.records import records_of
from rase_models.backends.cpu.kernels.rows import output_row, row_count, scratch
from rase_models.backends.cpu.shapes import GROUP_LINE, ROW_BLOCK
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    f32,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)
from rase_models.backends.cpu.tiles import ADD


@compiled
def group_count(op: int) -> int:
    """Return the number of groups of 16 outputs."""
    return int((load_i64(op + N) + GROUP_ROWS - 1) // GROUP_ROWS)


@compiled
def _has_epilogue(op: int) -> bool:
    return bool(load_i64(op + BIAS) != 0 or load_f32(op + SCALE) != f32(1.0))


@compiled
def _finish_outputs(op: int, group: int, products: int, y: int, y_stride: int, rows: int) -> None:
    """Scale the products of a group, add its biases, and write them or add them to what is there."""
    scale, bias = splat(load_f32(op + SCALE)), splat(f32(0.0))
    if load_i64(op + BIAS) != 0:
        bias = load_f32x16(load_i64(op + BIAS) + GROUP_LINE * group)
    accumulates = load_i64(op + FLAGS) & ACCUMULATE
    for row in range(rows):
        outputs = add(multiply(load_f32x16(products + GROUP_LINE * row), scale), bias)
        if accumulates:
            outputs = add(load_f32x16(y), outputs)
        store_f32x16(y, outputs)
        y += y_stride


def linear(format_name: str) -> Any:
    """Build the kernel that multiplies by W, N outputs of K columns, with a scale and biases.

    X or RECORDS is the input, Y the output; with ACCUMULATE it is added to Y.
    """
    form = form_named(format_name)
    is_quantised, columns, block_nbytes = form.is_quantised, form.columns, form.nbytes
    multiply_rows = multiply_group(form)

    @compiled
    def multiply_groups(thread: int, op: int, context: int, first: int, last: int) -> None:
        rows, blocks = row_count(op, context), load_i64(op + K) // columns
        x = records_of(thread, op, context) if is_quantised else load_i64(op + X)
        x_stride, y_stride, alone = load_i64(op + X_STRIDE), load_i64(op + Y_STRIDE), int(rows == 1)
        products = scratch(thread, context)
        accumulates = ADD if load_i64(op + FLAGS) & ACCUMULATE else 0
        for row in range(0, rows, ROW_BLOCK):
            end = min(rows, row + ROW_BLOCK)
            for group in range(first, last):
                weights = load_i64(op + W) + group * blocks * block_nbytes
                y = output_row(op, context, row) + GROUP_LINE * group
                if _has_epilogue(op):
                    multiply_rows(weights, blocks, x, x_stride, alone, row, end, products, GROUP_LINE, 0)
                    _finish_outputs(op, group, products, y, y_stride, end - row)
                else:
                    multiply_rows(weights, blocks, x, x_stride, alone, row, end, y, y_stride, accumulates)

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        count = group_count(op) if row_count(op, context) > 0 else 0
        size = chunk_size(count, threads, 4)
        chunks = (count + size - 1) // size
        done = 0
        chunk = claim(thread, op, context, chunks)
        while chunk >= 0:
            multiply_groups(thread, op, context, chunk * size, min(count, (chunk + 1) * size))
            done += 1
            chunk = claim(thread, op, context, chunks)
        finish(op, done)

    return kernel
