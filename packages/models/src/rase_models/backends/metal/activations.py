"""Nonlinearities."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import mlx.core as mx

from rase_models.program import Activation

_CLAMP, _CLAMPED_ALPHA = 7.0, 1.702


def _silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


def _gelu_tanh(x: mx.array) -> mx.array:
    inner = (2 / mx.pi) ** 0.5 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + mx.tanh(inner))


def _softplus(x: mx.array) -> mx.array:
    return mx.logaddexp(x, 0.0)


ACTIVATIONS: Mapping[Activation, Callable[[mx.array], mx.array]] = MappingProxyType(
    {
        Activation.SILU: _silu,
        Activation.GELU_TANH: _gelu_tanh,
        Activation.SIGMOID: mx.sigmoid,
        Activation.SOFTPLUS: _softplus,
        Activation.EXP: mx.exp,
        Activation.RELU: lambda x: mx.maximum(x, 0.0),
        Activation.RELU_SQUARED: lambda x: mx.square(mx.maximum(x, 0.0)),
        Activation.NONE: lambda x: x,
    }
)


def gated(activation: Activation, gate: mx.array, up: mx.array) -> mx.array:
    """Return activation(gate) * up."""
    if activation is Activation.CLAMPED_SWIGLU:
        gate, up = mx.minimum(gate, _CLAMP), mx.clip(up, -_CLAMP, _CLAMP)
        return gate * mx.sigmoid(_CLAMPED_ALPHA * gate) * (up + 1)
    return ACTIVATIONS[activation](gate) * up
