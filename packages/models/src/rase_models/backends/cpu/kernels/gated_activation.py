"""Gated activations: activation(gate) * up."""

from collections.abc import Mapping
from typing import Any

from rase_models.backends.cpu.abi import FLAGS, W_STRIDE, WRITE_FLOATS, WRITE_RECORDS, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    add,
    compiled,
    divide,
    exp,
    f32,
    fma,
    load_f32x16,
    load_i64,
    multiply,
    negate,
    splat,
    store_f32x16,
    tanh,
)

_GELU_SCALE = 0.7978845608028654  # sqrt(2 / pi)
_GELU_CUBIC = 0.044715


@compiled
def _silu(x: Any) -> Any:
    """Return x / (1 + exp(-x))."""
    return divide(x, add(splat(f32(1.0)), exp(negate(x))))


@compiled
def _gelu_tanh(x: Any) -> Any:
    """Return x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x³)))."""
    cubic = multiply(multiply(x, x), splat(f32(_GELU_CUBIC)))
    inner = multiply(fma(cubic, x, x), splat(f32(_GELU_SCALE)))
    return multiply(multiply(x, splat(f32(0.5))), add(splat(f32(1.0)), tanh(inner)))


ACTIVATIONS: Mapping[str, Any] = {"silu": _silu, "gelu_tanh": _gelu_tanh}
"""Compiled functions of 16 lanes, by the value of `program.Activation`."""


def gated_activation(activation: str) -> Any:
    """Build the kernel that writes activation(X) * W, N wide, as float32 or records."""
    activate = ACTIVATIONS[activation]

    @compiled
    def gated(gate: int, up: int) -> Any:
        return multiply(activate(load_f32x16(gate)), load_f32x16(up))

    @compiled
    def row_of(thread: int, op: int, context: int, row: int) -> None:
        gate, up = input_row(op, context, row), load_i64(op + W) + row * load_i64(op + W_STRIDE)
        target, width, flags = output_row(op, context, row), load_i64(op + N), load_i64(op + FLAGS)
        if flags & WRITE_FLOATS:
            for offset in range(0, 4 * width, 64):
                store_f32x16(target + offset, gated(gate + offset, up + offset))
        if flags & WRITE_RECORDS:
            records, rows, blocks = records_of(thread, op, context), row_count(op, context), width >> 5
            for block in range(blocks):
                at = 128 * block
                low, high = gated(gate + at, up + at), gated(gate + at + 64, up + at + 64)
                write_record(records, rows, blocks, row, block, low, high)

    return share(row_count, row_of, 4)
