"""rwkv6qwen2: QRWKV 6, Qwen 2 and QwQ with a gated linear recurrence in place of attention."""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Mixed
from rase_models.architectures.rwkv import read_heads
from rase_models.architectures.rwkv6 import blends, kept, without_kept
from rase_models.program import Activation, GatedActivation, KeyedScan, Program


def build(b: ProgramBuilder) -> Program:
    """Build rwkv6qwen2."""
    return build_decoder(b, Differences((LayerPositions(None),) * b.sizes.block_count), _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    heads, prefix, width = read_heads(b), f"blk.{layer}.time_mix_", b.width(x)
    length = width // heads
    heads_kv = b.sizes.head_counts_kv[layer] or heads
    if heads % heads_kv:
        raise b.keys.error("attention.head_count_kv", f"a divisor of the {heads} heads", heads_kv)
    x_w, x_k, x_v, x_r, x_g = blends(b, prefix, x)
    r = b.linear("r", x_r, f"{prefix}receptance", width)
    k = _spread(b, b.linear("k", x_k, f"{prefix}key", heads_kv * length), heads_kv, heads)
    v = _spread(b, b.linear("v", x_v, f"{prefix}value", heads_kv * length), heads_kv, heads)
    gate, keep = b.linear("gate", x_g, f"{prefix}gate", width), kept(b, prefix, x_w)
    without_kept(b, k, keep)
    out, state = b.buffer("mixed", width), b.state(width * length)
    b.emit(KeyedScan(out, r, k, v, keep, heads, state, scale=1 / math.sqrt(length)))
    b.emit(GatedActivation(out, gate, out, Activation.SIGMOID))
    return Mixed(out, f"{prefix}output")


def _spread(b: ProgramBuilder, x: str, parts: int, heads: int) -> str:
    """Emit each part of x once for every head that shares it."""
    share, length, out = heads // parts, b.width(x) // parts, x
    for place in range(share if share > 1 else 0):
        out = b.copy_parts(f"{x}_spread", x, parts, share * length, length, out_first=place * length)
    return out
