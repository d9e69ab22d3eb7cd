"""Layer norms, of whole rows and of heads."""

from typing import Any

from rase_models.backends.cpu.abi import BIAS, EPSILON, HEADS, W_STRIDE, K, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.norm import part_count
from rase_models.backends.cpu.kernels.outputs import write_values
from rase_models.backends.cpu.kernels.rows import input_row, is_replicated, scratch
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    f32,
    first_lane,
    fma,
    keep_first,
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
def _centre(x: int, y: int, width: int) -> None:
    """Write `width` values minus their mean, padded with zeros to a multiple of 16, as x is."""
    total = splat(f32(0.0))
    for at in range(0, width, 16):
        total = add(total, load_f32x16(x + 4 * at))
    mean = splat(sum_lanes(total) / f32(width))
    for at in range(0, width, 16):
        centred = subtract(load_f32x16(x + 4 * at), mean)
        store_f32x16(y + 4 * at, keep_first(centred, width - at, f32(0.0)))


@compiled
def _inverse_deviation(centred: int, width: int, epsilon: float) -> Any:
    """Return 1 / sqrt(mean(x²) + epsilon) of centred values."""
    total = splat(f32(0.0))
    for at in range(0, width, 16):
        v = load_f32x16(centred + 4 * at)
        total = fma(v, v, total)
    mean = sum_lanes(total) / f32(width)
    return f32(1.0) / first_lane(square_root(splat(mean + epsilon)))


@compiled
def _norm_part(thread: int, op: int, context: int, unit: int) -> None:
    """Norm one part of one row into the thread's scratch memory, and write it from there."""
    parts, width = load_i64(op + HEADS), load_i64(op + K)
    row = unit // parts
    part = unit - row * parts
    normed, offset = scratch(thread, context), part * load_i64(op + W_STRIDE)
    weight, bias = load_i64(op + W) + offset, load_i64(op + BIAS)
    _centre(input_row(op, context, row) + 4 * width * part, normed, width)
    inverse = splat(_inverse_deviation(normed, width, load_f32(op + EPSILON)))
    for at in range(0, 4 * width, 64):
        values = multiply(multiply(load_f32x16(normed + at), inverse), load_f32x16(weight + at))
        if bias != 0:
            values = add(values, load_f32x16(bias + offset + at))
        store_f32x16(normed + at, values)
    write_values(thread, op, context, row, width * part, normed, (width + 15) & ~15)


def layer_norm() -> Any:
    """Build the kernel that norms each of HEADS parts, K wide, of the rows of X, with biases.

    One row whose records are private is normed by every thread for itself: that costs less than waiting.
    """
    shared = compiled(share(part_count, _norm_part, 4))

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if is_replicated(op, context):
            _norm_part(thread, op, context, 0)
        else:
            shared(thread, threads, op, context)

    return kernel
