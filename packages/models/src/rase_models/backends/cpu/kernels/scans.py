"""Scans over the rows of a sequence with a matrix of a state for every head.

A state is float32 [heads][K][N]. A unit of work is 16 of the N columns of a head, for all rows of a sequence,
so that the order of additions is always that of K and of the rows.
"""

from typing import Any

from rase_models.backends.cpu.abi import (
    BETAS,
    BETAS_STRIDE,
    BIAS,
    EPSILON,
    HEADS,
    IN_2,
    IN_2_STRIDE,
    IN_3,
    IN_3_STRIDE,
    KEY_HEADS,
    STEP_SIZES,
    STEP_SIZES_STRIDE,
    K,
    N,
    W,
)
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.kernels.states import begins_sequence, clear_if_new, end_of_sequence, state_of
from rase_models.backends.cpu.simd import (
    compiled,
    exp_f32,
    f32,
    first_lane,
    fma,
    load_f32,
    load_f32x16,
    load_i64,
    multiply,
    splat,
    square_root,
    store_f32x16,
    subtract,
    sum_lanes,
)


@compiled
def _unit_count(op: int, context: int) -> int:
    return int(row_count(op, context) * load_i64(op + HEADS) * (load_i64(op + N) >> 4))


@compiled
def _step_size(op: int, row: int, head: int) -> Any:
    return load_f32(load_i64(op + STEP_SIZES) + row * load_i64(op + STEP_SIZES_STRIDE) + 4 * head)


@compiled
def _scan_row(op: int, row: int, head: int, part: int, x: Any, state: int) -> Any:
    """Move 16 columns of a state on by a row, and return what c reads of them."""
    size, stride = load_i64(op + K), 4 * load_i64(op + N)
    step = _step_size(op, row, head)
    keep = splat(exp_f32(step * load_f32(load_i64(op + W) + 4 * head)))
    b = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE) + 4 * size * part
    c = load_i64(op + IN_3) + row * load_i64(op + IN_3_STRIDE) + 4 * size * part
    added, total = multiply(x, splat(step)), splat(f32(0.0))
    for index in range(size):
        at = state + index * stride
        h = fma(added, splat(load_f32(b + 4 * index)), multiply(load_f32x16(at), keep))
        store_f32x16(at, h)
        total = fma(h, splat(load_f32(c + 4 * index)), total)
    return total


@compiled
def _scan(thread: int, op: int, context: int, unit: int) -> None:
    rows, width = row_count(op, context), load_i64(op + N)
    place = unit // rows
    first = unit - place * rows
    if not begins_sequence(context, first):
        return
    head = place // (width >> 4)
    column = 4 * width * head + 64 * (place - head * (width >> 4))
    part = head // (load_i64(op + HEADS) // load_i64(op + KEY_HEADS))
    state = state_of(op, context, first) + 4 * width * head * (load_i64(op + K) - 1) + column
    clear_if_new(context, first, state, load_i64(op + K), 4 * width)
    skip = splat(load_f32(load_i64(op + BIAS) + 4 * head))
    for row in range(first, end_of_sequence(context, first, rows)):
        x = load_f32x16(input_row(op, context, row) + column)
        y = fma(x, skip, _scan_row(op, row, head, part, x, state))
        store_f32x16(output_row(op, context, row) + column, y)


def state_scan() -> Any:
    """Build the kernel of a state space: X in HEADS parts of N, b and c (IN_2, IN_3) in KEY_HEADS parts of K.

    W and BIAS are the decay and the skip of every head.
    """
    return share(_unit_count, _scan, 4)


@compiled
def _inverse_length(x: int, size: int, epsilon: float) -> Any:
    """Return 1 / sqrt(sum(x²) + epsilon)."""
    total = splat(f32(0.0))
    for at in range(0, 4 * size, 64):
        v = load_f32x16(x + at)
        total = fma(v, v, total)
    return f32(1.0) / first_lane(square_root(splat(sum_lanes(total) + epsilon)))


@compiled
def _delta_row(op: int, row: int, head: int, v: Any, state: int) -> Any:
    """Move 16 columns of a state on by a row, and return what q reads of them."""
    size, stride = load_i64(op + K), 4 * load_i64(op + N)
    part, epsilon = 4 * size * (head % load_i64(op + KEY_HEADS)), load_f32(op + EPSILON)
    q = load_i64(op + IN_2) + row * load_i64(op + IN_2_STRIDE) + part
    k = load_i64(op + IN_3) + row * load_i64(op + IN_3_STRIDE) + part
    beta = load_f32(load_i64(op + BETAS) + row * load_i64(op + BETAS_STRIDE) + 4 * head)
    keep = splat(exp_f32(_step_size(op, row, head) * load_f32(load_i64(op + W) + 4 * head)))
    root = first_lane(square_root(splat(f32(size))))
    k_scale, q_scale = _inverse_length(k, size, epsilon), _inverse_length(q, size, epsilon) / root
    known = splat(f32(0.0))
    for index in range(size):
        h = multiply(load_f32x16(state + index * stride), keep)
        store_f32x16(state + index * stride, h)
        known = fma(h, splat(load_f32(k + 4 * index) * k_scale), known)
    change, total = multiply(subtract(v, known), splat(beta)), splat(f32(0.0))
    for index in range(size):
        at = state + index * stride
        h = fma(change, splat(load_f32(k + 4 * index) * k_scale), load_f32x16(at))
        store_f32x16(at, h)
        total = fma(h, splat(load_f32(q + 4 * index) * q_scale), total)
    return total


@compiled
def _delta(thread: int, op: int, context: int, unit: int) -> None:
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
        store_f32x16(output_row(op, context, row) + column, _delta_row(op, row, head, v, state))


def gated_delta() -> Any:
    """Build the kernel of a gated delta rule: X in HEADS parts of N, q and k (IN_2, IN_3) in parts of K.

    W is the decay of every head.
    """
    return share(_unit_count, _delta, 4)
