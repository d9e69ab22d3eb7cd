"""What the CPU backend executes: the ops of Programs, and the larger ones that fusion makes of them.

A step computes exactly what the ops that it replaces compute, to the bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rase_models.program import (
    Activate,
    Activation,
    Add,
    AddDots,
    Attention,
    Blend,
    Clamp,
    CopyParts,
    Embed,
    GatedActivation,
    GatedDelta,
    HeadLinear,
    KeyedScan,
    LayerNorm,
    Linear,
    MixParts,
    MoeFfn,
    Op,
    Rescale,
    RmsNorm,
    Rope,
    Rotate,
    Scale,
    SelectiveScan,
    SelectOutputs,
    Shift,
    ShortConv,
    SoftCap,
    Sparsify,
    StateScan,
    Xielu,
)


@dataclass(frozen=True, slots=True)
class AddLinear:
    """out = out + x @ weight.T (+ bias)."""

    out: str
    x: str
    weight: str
    bias: str | None


@dataclass(frozen=True, slots=True)
class GatedLinear:
    """out = activation(x @ gate.T) * (x @ up.T)."""

    out: str
    x: str
    gate: str
    up: str
    activation: Activation


@dataclass(frozen=True, slots=True)
class NormAdd:
    """out = out + norm(x) * weight."""

    out: str
    x: str
    weight: str | None
    eps: float


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is done to every head of the queries or keys: a norm, a turn, both or neither."""

    norm: RmsNorm | None = None
    rope: Rope | None = None


@dataclass(frozen=True, slots=True)
class PreparedAttention:
    """Attention whose queries and keys, `k`, are normed and turned on the way into it."""

    attention: Attention
    k: str
    v: str
    queries: Preparation
    keys: Preparation

    @property
    def out(self) -> str:
        """The buffer that attention writes."""
        return self.attention.out


Step = Op | AddLinear | GatedLinear | NormAdd | PreparedAttention

_READ_FIELDS: Mapping[type, tuple[str, ...]] = {
    Embed: (),
    RmsNorm: ("x",),
    LayerNorm: ("x",),
    Linear: ("x",),
    HeadLinear: ("x",),
    CopyParts: ("x", "out"),
    Rotate: ("x",),
    Attention: ("q", "k", "v"),
    Activate: ("x",),
    GatedActivation: ("gate", "up"),
    SoftCap: ("x",),
    Add: ("x", "y"),
    MoeFfn: ("x", "router_x"),
    ShortConv: ("x",),
    StateScan: ("x", "b", "c", "step"),
    GatedDelta: ("q", "k", "v", "step", "beta"),
    SelectOutputs: ("x",),
    Scale: ("x",),
    Blend: ("x", "y", "gate"),
    MixParts: ("x", "weights", "base"),
    Rescale: ("x", "like"),
    Sparsify: ("x",),
    Xielu: ("x",),
    Clamp: ("x",),
    AddDots: ("x", "q", "k", "v"),
    Shift: ("x",),
    SelectiveScan: ("x", "b", "c", "step"),
    KeyedScan: ("q", "k", "v", "keep", "a", "b"),
    AddLinear: ("x", "out"),
    GatedLinear: ("x",),
    NormAdd: ("x", "out"),
}


def reads(step: Step) -> tuple[str, ...]:
    """Return the buffers that a step reads."""
    if isinstance(step, PreparedAttention):
        return reads(step.attention)
    fields = (getattr(step, field) for field in _READ_FIELDS[type(step)])
    return tuple(buffer for buffer in fields if buffer is not None)


def written(step: Step) -> str:
    """Return the buffer that a step writes."""
    return step.x if isinstance(step, Rotate | SoftCap) else step.out
