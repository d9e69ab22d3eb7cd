"""Gated activations: activation(gate) * up."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from rase_models.backends.cpu.abi import FLAGS, W_STRIDE, WRITE_FLOATS, WRITE_RECORDS, N, W
from rase_models.backends.cpu.kernels.claims import share
from rase_models.backends.cpu.kernels.records import records_of, write_record
from rase_models.backends.cpu.kernels.rows import input_row, output_row, row_count
from rase_models.backends.cpu.simd import (
    absolute,
    add,
    compiled,
    divide,
    exp,
    f32,
    fma,
    keep_first,
    load_f32,
    load_f32x16,
    load_i64,
    maximum,
    minimum,
    multiply,
    negate,
    sigmoid,
    splat,
    store_f32x16,
    tanh,
)

_GELU_SCALE = 0.7978845608028654  # sqrt(2 / pi)
_GELU_CUBIC = 0.044715
_CLAMP, _CLAMPED_ALPHA = 7.0, 1.702
_LAST_POWER = 15  # of the series of artanh, whose argument is at most 1/3: an error under 1e-8


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


@compiled
def _sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return sigmoid(x)


@compiled
def _softplus(x: Any) -> Any:
    """Return ln(1 + exp(x)) = max(x, 0) + 2 artanh(u / (u + 2)) with u = exp(-|x|)."""
    u = exp(negate(absolute(x)))
    s = divide(u, add(u, splat(f32(2.0))))
    square = multiply(s, s)
    tail = splat(f32(1.0 / _LAST_POWER))
    for power in range(_LAST_POWER - 2, 0, -2):
        tail = fma(tail, square, splat(f32(1.0) / f32(power)))
    return add(maximum(x, splat(f32(0.0))), multiply(multiply(s, splat(f32(2.0))), tail))


@compiled
def _relu(x: Any) -> Any:
    """Return max(x, 0)."""
    return maximum(x, splat(f32(0.0)))


@compiled
def _relu_squared(x: Any) -> Any:
    """Return max(x, 0)²."""
    positive = maximum(x, splat(f32(0.0)))
    return multiply(positive, positive)


@compiled
def _same(x: Any) -> Any:
    return x


ACTIVATIONS: Mapping[str, Any] = {
    "silu": _silu,
    "gelu_tanh": _gelu_tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "exp": exp,
    "relu": _relu,
    "relu_squared": _relu_squared,
    "none": _same,
}
"""Compiled functions of 16 lanes, by the value of `program.Activation`."""


@compiled
def _clamped_swiglu(gate: Any, up: Any) -> Any:
    """Return x / (1 + exp(-1.702 x)) * (clamped up + 1) with x = min(gate, 7)."""
    most, least = splat(f32(_CLAMP)), splat(f32(-_CLAMP))
    x, up = minimum(gate, most), maximum(minimum(up, most), least)
    activated = multiply(x, sigmoid(multiply(x, splat(f32(_CLAMPED_ALPHA)))))
    return multiply(activated, add(up, splat(f32(1.0))))


@cache
def gate_named(activation: str) -> Any:
    """Return the compiled function of gate and up, 16 lanes each, of a gated activation."""
    if activation == "clamped_swiglu":
        return _clamped_swiglu
    activate = ACTIVATIONS[activation]

    @compiled
    def gate(gate: Any, up: Any) -> Any:
        return multiply(activate(gate), up)

    return gate


@cache
def _spread(length: int) -> Any:
    """Return the function that loads 16 values from the N that X's values become, each `length` times."""

    @compiled
    def one_each(gate: int, at: int, width: int) -> Any:
        return load_f32x16(gate + 4 * at)

    @compiled
    def spread(gate: int, at: int, width: int) -> Any:
        place = at // length
        values = splat(load_f32(gate + 4 * place))
        for later in range(place + 1, min(at + 15, width - 1) // length + 1):
            values = keep_first(values, later * length - at, load_f32(gate + 4 * later))
        return values

    return one_each if length == 1 else spread


def gated_activation(activation: str, length: int = 1) -> Any:
    """Build the kernel that writes activation(X) * W, N wide, as float32 or records.

    X has one value for every `length` of W.
    """
    gate_function, spread = gate_named(activation), _spread(length)

    @compiled
    def gated(gate: int, up: int, at: int, width: int) -> Any:
        return gate_function(spread(gate, at, width), load_f32x16(up + 4 * at))

    @compiled
    def row_of(thread: int, op: int, context: int, row: int) -> None:
        gate, up = input_row(op, context, row), load_i64(op + W) + row * load_i64(op + W_STRIDE)
        target, width, flags = output_row(op, context, row), load_i64(op + N), load_i64(op + FLAGS)
        if flags & WRITE_FLOATS:
            for offset in range(0, 4 * width, 64):
                store_f32x16(target + offset, gated(gate, up, offset >> 2, width))
        if flags & WRITE_RECORDS:
            records, rows, blocks = records_of(thread, op, context), row_count(op, context), width >> 5
            for block in range(blocks):
                low = gated(gate, up, 32 * block, width)
                high = gated(gate, up, 32 * block + 16, width)
                write_record(records, rows, blocks, row, block, low, high)

    return share(row_count, row_of, 4)
