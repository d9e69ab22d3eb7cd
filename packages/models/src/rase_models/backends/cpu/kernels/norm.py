"""RMS norms: of whole rows, on the way to a matrix, and of heads."""

from typing import Any

from rase_models.backends.cpu.abi import ACCUMULATE, EPSILON, FLAGS, HEADS, W_STRIDE, K, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.rows import input_row, is_replicated, output_row, row_count, scratch
from rase_models.backends.cpu.simd import (
    add,
    compiled,
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
    sum_lanes,
)


@compiled
def inverse_rms(x: int, width: int, epsilon: float) -> Any:
    """Return 1 / sqrt(mean(x²) + epsilon) of `width` float32, padded with zeros to a multiple of 16."""
    even, odd = splat(f32(0.0)), splat(f32(0.0))
    vectors = (width + 15) >> 4
    for pair in range(vectors >> 1):
        v, w = load_f32x16(x + 128 * pair), load_f32x16(x + 128 * pair + 64)
        even, odd = fma(v, v, even), fma(w, w, odd)
    if vectors & 1:
        v = load_f32x16(x + 64 * (vectors - 1))
        even = fma(v, v, even)
    mean = sum_lanes(add(even, odd)) / f32(width)
    return f32(1.0) / first_lane(square_root(splat(mean + epsilon)))


@compiled
def normalised(x: int, weight: int, offset: int, inverse: float) -> Any:
    """Return 16 values of x at a byte offset, normalised."""
    return multiply(multiply(load_f32x16(x + offset), splat(inverse)), load_f32x16(weight + offset))


@compiled
def norm_to(x: int, weight: int, y: int, width: int, epsilon: float) -> None:
    """Write the norm of `width` values; y may be x."""
    inverse = inverse_rms(x, width, epsilon)
    for offset in range(0, 4 * width, 64):
        store_f32x16(y + offset, normalised(x, weight, offset, inverse))


@compiled
def _norm_unit(thread: int, op: int, context: int, unit: int) -> None:
    """Norm one part of one row into the thread's scratch memory, and write it from there."""
    parts, width = load_i64(op + HEADS), load_i64(op + K)
    row = unit // parts
    part = unit - row * parts
    normed = scratch(thread, context)
    x = input_row(op, context, row) + 4 * width * part
    weight = load_i64(op + W) + part * load_i64(op + W_STRIDE)
    norm_to(x, weight, normed, width, load_f32(op + EPSILON))
    if load_i64(op + FLAGS) & ACCUMULATE:
        _add_to(output_row(op, context, row), normed, width)
    else:
        write_values(thread, op, context, row, width * part, normed, (width + 15) & ~15)


@compiled
def _add_to(target: int, values: int, width: int) -> None:
    for offset in range(0, 4 * width, 64):
        store_f32x16(target + offset, add(load_f32x16(target + offset), load_f32x16(values + offset)))


@compiled
def part_count(op: int, context: int) -> int:
    """Return how many parts of rows there are to norm."""
    return int(row_count(op, context) * load_i64(op + HEADS))


def rms_norm() -> Any:
    """Build the kernel that norms each of HEADS parts, K wide, of the rows of X.

    One row whose records are private is normed by every thread for itself: that costs less than waiting.
    """
    shared = compiled(share(part_count, _norm_unit, 4))

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if is_replicated(op, context):
            _norm_unit(thread, op, context, 0)
        else:
            shared(thread, threads, op, context)

    return kernel
