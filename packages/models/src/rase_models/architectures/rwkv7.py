"""rwkv7: RWKV 7 (Goose), a delta rule whose keys are kept, forgotten and corrected each for itself."""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Mixed
from rase_models.architectures.rwkv import (
    blended,
    blended_all,
    build_rwkv,
    low_rank,
    norm_heads,
    read_heads,
    shifted,
)
from rase_models.program import (
    Activate,
    Activation,
    AddDots,
    Blend,
    GatedActivation,
    KeyedScan,
    Program,
    RmsNorm,
    Scale,
)

_MOST_FORGOTTEN = -0.606531  # -exp(-1/2): at most 45 % of a key's values go at once
_LEAST_SQUARE = 1e-20


def build(b: ProgramBuilder) -> Program:
    """Build rwkv7."""
    return build_rwkv(b, mix_times, _network)


def mix_times(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    """Emit the layer's first part; values are moved toward those of the first layer."""
    heads, prefix, width = read_heads(b), f"blk.{layer}.time_mix_", b.width(x)
    gated = f"{prefix}g1.weight" in b.tensors
    outs = [f"x_{kind}" for kind in ("r", "w", "k", "v", "a", *("g" if gated else ""))]
    x_r, x_w, x_k, x_v, x_a, *x_g = blended_all(b, outs, x, shifted(b, x), f"{prefix}lerp_fused")
    r = b.linear("r", x_r, f"{prefix}receptance", width)
    k = b.linear("k", x_k, f"{prefix}key", width)
    v = _values(b, layer, x_v)
    rate = _gate(b, "rate", x_a, f"{prefix}a")
    removed, written = _correction(b, prefix, k, rate, heads)
    _weigh_keys(b, prefix, k, rate)
    out, length = b.buffer("mixed", width), width // heads
    state = b.state(width * length)
    b.emit(KeyedScan(out, r, k, v, _kept(b, prefix, x_w), heads, state, removed, written))
    if f"{prefix}ln.weight" in b.tensors:
        norm_heads(b, out, f"{prefix}ln", heads)
    b.emit(AddDots(out, out, r, k, v, b.tensors.vector(f"{prefix}r_k.weight", width), heads))
    if gated:
        names = (f"{prefix}g1", f"{prefix}g2")
        gate = low_rank(b, "gate", x_g[0], names, between=Activation.SIGMOID)
        b.emit(GatedActivation(out, gate, out, Activation.NONE))
    return Mixed(out, f"{prefix}output")


def _gate(b: ProgramBuilder, out: str, x: str, name: str) -> str:
    gate = low_rank(b, out, x, (f"{name}1", f"{name}2"), bias=f"{name}0.weight")
    b.emit(Activate(gate, gate, Activation.SIGMOID))
    return gate


def _kept(b: ProgramBuilder, prefix: str, x: str) -> str:
    """Emit how much of what each key has stays."""
    kept = low_rank(b, "kept", x, (f"{prefix}w1", f"{prefix}w2"), bias=f"{prefix}w0.weight", capped=True)
    b.emit(Activate(kept, kept, Activation.SIGMOID))
    b.emit(Scale(kept, kept, factor=_MOST_FORGOTTEN))
    b.emit(Activate(kept, kept, Activation.EXP))
    return kept


def _values(b: ProgramBuilder, layer: int, x: str) -> str:
    prefix = f"blk.{layer}.time_mix_"
    if layer == 0:
        for kind in ("v0", "v1", "v2"):
            b.tensors.ignore(f"{prefix}{kind}.weight")
        return b.linear("first_v", x, f"{prefix}value", b.width(x))
    v = b.linear("v", x, f"{prefix}value", b.width(x))
    b.emit(Blend(v, v, b.buffer("first_v", b.width(v)), None, _gate(b, "residual", x, f"{prefix}v")))
    return v


def _correction(b: ProgramBuilder, prefix: str, k: str, rate: str, heads: int) -> tuple[str, str]:
    """Emit which key is asked and which is written: one key of length 1 a head, of which a part is taken."""
    width = b.width(k)
    key, removed, written = (b.buffer(name, width) for name in ("key", "removed", "written"))
    b.emit(Scale(key, k, b.tensors.vector(f"{prefix}k_k.weight", width)))
    b.emit(RmsNorm(key, key, None, _LEAST_SQUARE, heads))
    b.emit(Scale(key, key, factor=1 / math.sqrt(width // heads)))
    b.emit(Scale(removed, key, factor=-1.0))
    b.emit(GatedActivation(written, rate, key, Activation.NONE))
    return removed, written


def _weigh_keys(b: ProgramBuilder, prefix: str, k: str, rate: str) -> None:
    """Move keys toward themselves times the rate."""
    weighed = b.buffer("weighed", b.width(k))
    b.emit(GatedActivation(weighed, rate, k, Activation.NONE))
    b.emit(Blend(k, k, weighed, b.tensors.vector(f"{prefix}k_a.weight", b.width(k))))


def _network(b: ProgramBuilder, layer: int, x: str, before: str) -> str:
    prefix = f"blk.{layer}.channel_mix_"
    width = b.keys.require("feed_forward_length", b.sizes.feed_forward_lengths[layer])
    up = b.linear("up", blended(b, "x_k", x, before, f"{prefix}lerp_k"), f"{prefix}key", width)
    b.emit(Activate(up, up, Activation.RELU_SQUARED))
    return b.linear("update", up, f"{prefix}value", b.width(x))
