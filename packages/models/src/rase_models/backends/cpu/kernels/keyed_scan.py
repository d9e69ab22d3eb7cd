"""Scans over the rows of a sequence with a matrix of keys and values for every head, kept key by key.

A state is float32 [heads][K][N]. A unit of work is 16 of the N columns of a head, for all rows of a sequence,
so that the order of additions is always that of K and of the rows.
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    BETAS,
    BETAS_STRIDE,
    CORRECTIONS,
    CORRECTIONS_STRIDE,
    HEADS,
    IN_2,
    IN_2_STRIDE,
    IN_3,
    IN_3_STRIDE,
    SCALE,
    STEP_SIZES,
    STEP_SIZES_STRIDE,
    K,
    N,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.kernels.states import begins_sequence, clear_if_new, end_of_sequence, state_of
from rase_models.backends.cpu.simd import (
    compiled,
    f32,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    store_f32x16,
)


@compiled
def _unit_count(op: int, context: int) -> int:
    return int(row_count(op, context) * load_i64(op + HEADS) * (load_i64(op + N) >> 4))


@compiled
def _keys_of(op: int, word: int, stride: int, row: int, head: int) -> int:
    """Return where a head's values for its keys are in a row of an input."""
    return int(load_i64(op + word) + row * load_i64(op + stride) + 4 * load_i64(op + K) * head)


@compiled
def _read(keys: int, state: int, size: int, stride: int) -> Any:
    """Return the sum of the rows of 16 columns of a state, each times the value for its key."""
    total = splat(f32(0.0))
    for index in range(size):
        total = fma(load_f32x16(state + index * stride), splat(load_f32(keys + 4 * index)), total)
    return total


def keyed_scan(corrects: int, reads_before: int) -> Any:
    """Build the kernel of a KeyedScan: v is X in HEADS parts of N; q, k, keep, a and b have K a head.

    They are IN_2, IN_3, STEP_SIZES, BETAS and CORRECTIONS; a and b count if it `corrects`.
    """

    @compiled
    def scan_row(op: int, row: int, head: int, v: Any, state: int) -> Any:
        size, stride = load_i64(op + K), 4 * load_i64(op + N)
        q = _keys_of(op, IN_2, IN_2_STRIDE, row, head)
        k = _keys_of(op, IN_3, IN_3_STRIDE, row, head)
        keep = _keys_of(op, STEP_SIZES, STEP_SIZES_STRIDE, row, head)
        known, b, total = splat(f32(0.0)), 0, splat(f32(0.0))
        if corrects:
            known = _read(_keys_of(op, BETAS, BETAS_STRIDE, row, head), state, size, stride)
            b = _keys_of(op, CORRECTIONS, CORRECTIONS_STRIDE, row, head)
        for index in range(size):
            at = state + index * stride
            h = load_f32x16(at)
            wanted = splat(load_f32(q + 4 * index))
            if reads_before:
                total = fma(h, wanted, total)
            h = multiply(h, splat(load_f32(keep + 4 * index)))
            if corrects:
                h = fma(known, splat(load_f32(b + 4 * index)), h)
            h = fma(v, splat(load_f32(k + 4 * index)), h)
            store_f32x16(at, h)
            if not reads_before:
                total = fma(h, wanted, total)
        return multiply(total, splat(load_f32(op + SCALE)))

    @compiled
    def scan(thread: int, op: int, context: int, unit: int) -> None:
        rows, width = row_count(op, context), load_i64(op + N)
        place = unit // rows
        first = unit - place * rows
        if not begins_sequence(context, first):
            return
        head = place // (width >> 4)
        column = 4 * width * head + 64 * (place - head * (width >> 4))
        state = state_of(op, context, first) + 4 * width * head * (load_i64(op + K) - 1) + column
        clear_if_new(context, first, state, load_i64(op + K), 4 * width)
        for row in range(first, end_of_sequence(context, first, rows)):
            v = load_f32x16(input_row(op, context, row) + column)
            store_f32x16(output_row(op, context, row) + column, scan_row(op, row, head, v, state))

    return share(_unit_count, scan, 4)
