"""Nonlinearities."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import mlx.core as mx

from rase_models.backends.metal.fusing import fused
from rase_models.program import Activation

_CLAMP, _CLAMPED_ALPHA = 7.0, 1.702


def _silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def _gelu_tanh(x: mx.array) -> mx.array:
    inner = (2 / mx.pi) ** 0.5 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + mx.tanh(inner))


def _softplus(x: mx.array) -> mx.array:
    return mx.logaddexp(x, 0.0)


def _relu(x: mx.array) -> mx.array:
    return mx.maximum(x, 0.0)


def _relu_squared(x: mx.array) -> mx.array:
    return mx.square(mx.maximum(x, 0.0))


def _nothing(x: mx.array) -> mx.array:
    return x


PLAIN: Mapping[Activation, Callable[[mx.array], mx.array]] = MappingProxyType(
    {
        Activation.SILU: _silu,
        Activation.GELU_TANH: _gelu_tanh,
        Activation.SIGMOID: mx.sigmoid,
        Activation.SOFTPLUS: _softplus,
        Activation.EXP: mx.exp,
        Activation.RELU: _relu,
        Activation.RELU_SQUARED: _relu_squared,
        Activation.NONE: _nothing,
    }
)
"""What each means, one operation of MLX after the other."""


def _clamped_swiglu(gate: mx.array, up: mx.array) -> mx.array:
    gate, up = mx.minimum(gate, _CLAMP), mx.clip(up, -_CLAMP, _CLAMP)
    return gate * mx.sigmoid(_CLAMPED_ALPHA * gate) * (up + 1)


def _gated(activation: Callable[[mx.array], mx.array]) -> Callable[[mx.array, mx.array], mx.array]:
    return lambda gate, up: activation(gate) * up


PLAIN_GATES: Mapping[Activation, Callable[[mx.array, mx.array], mx.array]] = MappingProxyType(
    {
        Activation.CLAMPED_SWIGLU: _clamped_swiglu,
        **{activation: _gated(function) for activation, function in PLAIN.items()},
    }
)
"""What each means of a gate and of what it lets through."""

ACTIVATIONS = MappingProxyType({activation: fused(function) for activation, function in PLAIN.items()})
"""The same, each one kernel of a GPU."""

GATES = MappingProxyType({activation: fused(function) for activation, function in PLAIN_GATES.items()})
"""The same, each one kernel of a GPU."""
