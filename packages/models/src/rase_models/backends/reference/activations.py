"""The functions that networks apply value by value, and softmax, in float32."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from rase_models.backends.reference.run import Floats
from rase_models.program import Activation


def softmax(x: Floats) -> Floats:
    """Return exp(x) / sum(exp(x)) along the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: Floats = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares


def silu(x: Floats) -> Floats:
    """Return x / (1 + exp(-x)), which is 0 where the exponential overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(x / (1.0 + np.exp(-x)), np.float32)


def gelu_tanh(x: Floats) -> Floats:
    """Return the approximation of GELU by a hyperbolic tangent."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.asarray(0.5 * x * (1.0 + np.tanh(inner)), np.float32)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), which is 0 where the exponential overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)), np.float32)


def softplus(x: Floats) -> Floats:
    """Return ln(1 + exp(x)), without overflow."""
    return np.asarray(np.logaddexp(x, 0), np.float32)


def exp(x: Floats) -> Floats:
    """Return e^x, which is infinity where it overflows."""
    with np.errstate(over="ignore"):
        return np.exp(x)


def relu(x: Floats) -> Floats:
    """Return max(x, 0)."""
    return np.maximum(x, np.float32(0))


ACTIVATIONS: Mapping[Activation, Callable[[Floats], Floats]] = MappingProxyType(
    {
        Activation.SILU: silu,
        Activation.GELU_TANH: gelu_tanh,
        Activation.SIGMOID: sigmoid,
        Activation.SOFTPLUS: softplus,
        Activation.EXP: exp,
        Activation.RELU: relu,
        Activation.RELU_SQUARED: lambda x: np.square(relu(x)),
        Activation.NONE: lambda x: x,
    }
)

_CLAMP, _CLAMPED_ALPHA = 7.0, 1.702


def gated(activation: Activation, gate: Floats, up: Floats) -> Floats:
    """Return activation(gate) * up."""
    if activation is Activation.CLAMPED_SWIGLU:
        gate, up = np.minimum(gate, _CLAMP), np.clip(up, -_CLAMP, _CLAMP)
        return gate * sigmoid(_CLAMPED_ALPHA * gate) * (up + 1)
    return ACTIVATIONS[activation](gate) * up
