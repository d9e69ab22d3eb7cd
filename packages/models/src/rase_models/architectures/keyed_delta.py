"""A layer with a delta rule that forgets key by key (KDA, https://arxiv.org/abs/2510.26692).

Queries, keys and values each go through a convolution of their own; a norm and a gate follow the rule.
"""

import math
from collections.abc import Callable

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Mixed
from rase_models.program import (
    Activate,
    Activation,
    GatedActivation,
    KeyedScan,
    RmsNorm,
    Scale,
    ShortConv,
)

Kept = Callable[[ProgramBuilder, str, str, int, int], str]
"""What emits how much of what each key has stays: by a prefix of names, a buffer, heads and their length."""


def apply_keyed_delta(b: ProgramBuilder, layer: int, x: str, kept: Kept, gate: Callable[[], str]) -> Mixed:
    """Emit the layer's first part; `gate` emits what the result is gated by."""
    heads, length = b.keys.require("attention.head_count", b.sizes.head_counts[layer]), read_length(b)
    prefix, width = f"blk.{layer}.", heads * length
    q, k, v = (_convolved(b, prefix, kind, x, width) for kind in "qkv")
    for buffer in (q, k):
        b.emit(RmsNorm(buffer, buffer, None, b.keys.number(Norm.RMS.value) / length, heads))
    b.emit(Scale(k, k, factor=1 / math.sqrt(length)))
    keep = kept(b, prefix, x, heads, length)
    removed, written = (b.buffer(name, width) for name in ("removed", "written"))
    b.emit(GatedActivation(removed, keep, k, Activation.NONE))
    b.emit(Scale(removed, removed, factor=-1.0))
    b.emit(GatedActivation(written, b.linear("beta", x, f"{prefix}ssm_beta", heads), k, Activation.SIGMOID))
    out, state = b.buffer("mixed", width), b.state(width * length)
    b.emit(KeyedScan(out, q, written, v, keep, heads, state, removed, written, scale=1 / length))
    b.norm(out, out, f"{prefix}ssm_norm", heads)
    b.emit(GatedActivation(out, gate(), out, Activation.SIGMOID))
    return Mixed(out, f"{prefix}attn_output")


def read_length(b: ProgramBuilder) -> int:
    """Read the length of heads."""
    return b.keys.count("kda.head_dim", most=1 << 16)


def _convolved(b: ProgramBuilder, prefix: str, kind: str, x: str, width: int) -> str:
    """Emit queries, keys or values."""
    out, taps = b.linear(kind, x, f"{prefix}attn_{kind}", width), b.keys.count("ssm.conv_kernel")
    name = f"{prefix}ssm_conv1d_{kind}.weight"
    weight = b.tensors.vector(name, *_conv_shape(b, name, width, taps))
    b.emit(ShortConv(f"{out}_conv", out, weight, None, taps, b.state((taps - 1) * width)))
    b.emit(Activate(b.buffer(f"{out}_conv", width), f"{out}_conv", Activation.SILU))
    return f"{out}_conv"


def _conv_shape(b: ProgramBuilder, name: str, width: int, taps: int) -> tuple[int, ...]:
    """Return how a file has the weights: with a dimension of 1 between channels and taps, or without."""
    return (width, taps) if b.tensors.dimensions(name) == 2 else (width, 1, taps)


def kept_of_steps(b: ProgramBuilder, prefix: str, x: str, heads: int, length: int) -> str:
    """Emit exp(softplus(step + bias) * decay), with a decay for each head."""
    width = heads * length
    low = b.linear("step_low", x, f"{prefix}ssm_f_a", length)
    step = b.linear("kept", low, f"{prefix}ssm_f_b", width, bias=f"{prefix}ssm_dt.bias")
    b.emit(Activate(step, step, Activation.SOFTPLUS))
    b.emit(Scale(step, step, decays(b, prefix, heads), parts=heads))
    b.emit(Activate(step, step, Activation.EXP))
    return step


def decays(b: ProgramBuilder, prefix: str, heads: int) -> str:
    """Ask for a number for each head, which some files have with a dimension of 1 after it."""
    name = f"{prefix}ssm_a"
    shape = (heads,) if b.tensors.dimensions(name) == 1 else (heads, 1)
    return b.tensors.vector(name, *shape)
