"""rwkv6: RWKV 6 (Finch), whose states forget key by key, as fast as each row says."""

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
    Add,
    AddDots,
    GatedActivation,
    HeadLinear,
    KeyedScan,
    Program,
    Scale,
    SoftCap,
)

_KINDS = ("w", "k", "v", "r", "g")


def build(b: ProgramBuilder) -> Program:
    """Build rwkv6."""
    return build_rwkv(b, _mix_times, _network, halved_every=b.keys.count("rescale_every_n_layers", 0))


def _mix_times(b: ProgramBuilder, layer: int, x: str) -> Mixed:
    heads, prefix, width = read_heads(b), f"blk.{layer}.time_mix_", b.width(x)
    x_w, x_k, x_v, x_r, x_g = blends(b, prefix, x)
    r, k, v = (
        b.linear(out, inputs, f"{prefix}{name}", width)
        for out, inputs, name in (("r", x_r, "receptance"), ("k", x_k, "key"), ("v", x_v, "value"))
    )
    gate = b.linear("gate", x_g, f"{prefix}gate", width)
    out, state = b.buffer("mixed", width), b.state(width * width // heads)
    b.emit(KeyedScan(out, r, k, v, kept(b, prefix, x_w), heads, state, reads_before=True))
    first = b.tensors.vector(f"{prefix}first.weight", heads, width // heads)
    b.emit(AddDots(out, out, r, k, v, first, heads))
    norm_heads(b, out, f"{prefix}ln", heads)
    b.emit(GatedActivation(out, gate, out, Activation.SILU))
    return Mixed(out, f"{prefix}output")


def blends(b: ProgramBuilder, prefix: str, x: str) -> tuple[str, ...]:
    """Emit the rows moved toward those before, once for each use, by as much as the rows themselves say."""
    width, count, before = b.width(x), len(_KINDS), shifted(b, x)
    inner = b.tensors.rows_of(f"{prefix}w1.weight")
    if inner % count:
        raise b.keys.error("time_mix_extra_dim", f"a tensor of {count} equal parts", inner)
    low = b.linear("shares_low", blended(b, "x_x", x, before, f"{prefix}lerp_x"), f"{prefix}w1", inner)
    b.emit(SoftCap(low, 1.0))
    shares = b.buffer("shares", count * width)
    weight = b.tensors.matrix(f"{prefix}w2.weight", count, width, inner // count)
    b.emit(HeadLinear(shares, low, weight, count))
    if f"{prefix}lerp_fused.weight" in b.tensors:
        outs = [f"x_{kind}" for kind in _KINDS]
        return blended_all(b, outs, x, before, f"{prefix}lerp_fused", shares)
    blended_ones = []
    for place, kind in enumerate(_KINDS):
        share = b.copy_parts("share", shares, 1, width, width, first=place * width)
        blended_ones.append(blended(b, f"x_{kind}", x, before, f"{prefix}lerp_{kind}", share))
    return tuple(blended_ones)


def kept(b: ProgramBuilder, prefix: str, x: str) -> str:
    """Emit how much of what each key has stays: exp(-exp(...))."""
    names, bias = (f"{prefix}decay_w1", f"{prefix}decay_w2"), f"{prefix}decay.weight"
    out = low_rank(b, "kept", x, names, bias=bias, capped=True)
    b.emit(Activate(out, out, Activation.EXP))
    b.emit(Scale(out, out, factor=-1.0))
    b.emit(Activate(out, out, Activation.EXP))
    return out


def without_kept(b: ProgramBuilder, k: str, keep: str) -> None:
    """Take from keys what of their values stays anyway: k * (1 - keep)."""
    stays = b.buffer("stays", b.width(k))
    b.emit(GatedActivation(stays, keep, k, Activation.NONE))
    b.emit(Scale(stays, stays, factor=-1.0))
    b.emit(Add(k, k, stays))


def _network(b: ProgramBuilder, layer: int, x: str, before: str) -> str:
    prefix = f"blk.{layer}.channel_mix_"
    width = b.keys.require("feed_forward_length", b.sizes.feed_forward_lengths[layer])
    x_k, x_r = (blended(b, f"x_{kind}", x, before, f"{prefix}lerp_{kind}") for kind in ("k", "r"))
    gate = b.linear("r", x_r, f"{prefix}receptance", b.width(x))
    up = b.linear("up", x_k, f"{prefix}key", width)
    b.emit(Activate(up, up, Activation.RELU_SQUARED))
    update = b.linear("update", up, f"{prefix}value", b.width(x))
    b.emit(GatedActivation(update, gate, update, Activation.SIGMOID))
    return update
