"""qwen35: Qwen 3.5, three of four layers with a gated delta rule, the others with gated attention."""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.delta_rule import apply_delta_rule
from rase_models.architectures.differences import Differences, Experts, Mixed, Norms
from rase_models.architectures.positions import same_positions
from rase_models.program import (
    Activation,
    Attention,
    GatedActivation,
    KvLayer,
    Program,
    RopePairing,
    Rotate,
)

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build qwen35."""
    return build_with(b, Experts())


def build_with(b: ProgramBuilder, experts: Experts, *, by_key_head: bool = False) -> Program:
    """Build qwen35, with experts where its layers have them.

    Text has one position in all sections of its rotary positions.

    Args:
        by_key_head: whether heads with the same key are neighbours in gated delta rules.
    """
    recurrent = _recurrent_layers(b)

    def mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
        if recurrent[layer]:
            return apply_delta_rule(b, layer, x, by_key_head=by_key_head)
        return _attend(b, differences, layer, x)

    differences = Differences(
        same_positions(b, RopePairing.HALVES),
        attention_norms=Norms("attn_norm", None),
        feed_forward_norms=Norms("post_attention_norm", None),
        feed_forward_scaled=True,
        experts=experts,
    )
    return build_decoder(b, differences, mix)


def _recurrent_layers(b: ProgramBuilder) -> tuple[bool, ...]:
    key, layers = "attention.recurrent_layers", b.sizes.block_count
    if not b.keys.is_array(key):
        period = b.keys.count("full_attention_interval", _PERIOD)
        return tuple((layer + 1) % period != 0 for layer in range(layers))
    return b.keys.layer_flags(key, layers, b.sizes.predicting_blocks)


def _attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention whose results are gated by what comes with the queries."""
    sizes, prefix, positions = b.sizes, f"blk.{layer}.attn_", differences.positions[layer]
    heads = b.keys.require("attention.head_count", sizes.head_counts[layer])
    heads_kv = b.keys.require("attention.head_count_kv", sizes.head_counts_kv[layer])
    length, value_length = sizes.key_length, sizes.value_length
    both = b.linear("q_and_gate", x, f"{prefix}q", heads * (length + value_length))
    q = b.copy_parts("q", both, heads, length, length)
    gate = b.copy_parts("attention_gate", both, heads, value_length, value_length, first=length)
    k = b.linear("k", x, f"{prefix}k", heads_kv * length)
    v = b.linear("v", x, f"{prefix}v", heads_kv * value_length)
    for kind, buffer, count in (("q", q, heads), ("k", k, heads_kv)):
        b.norm(buffer, buffer, f"{prefix}{kind}_norm", count)
        if positions.rope is not None:
            b.emit(Rotate(buffer, count, positions.rope))
    cache = b.kv_layer(KvLayer(heads_kv, length, value_length))
    out = b.buffer("attended", heads * value_length)
    scale = sizes.attention_scale or 1 / math.sqrt(length)
    b.emit(Attention(out, q, k, v, cache, heads, heads_kv, length, value_length, scale))
    b.emit(GatedActivation(out, gate, out, Activation.SIGMOID))
    return Mixed(out, f"{prefix}output")
