"""bailingmoe3: Ling 3, most of whose layers have a delta rule that forgets key by key, and experts.

The other layers attend to latents, and gate what each head finds.
"""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.experts import read_experts
from rase_models.architectures.gated_attention import gate_attention
from rase_models.architectures.keyed_delta import apply_keyed_delta, decays
from rase_models.architectures.latent_attention import attend_latently, read_latent_sizes
from rase_models.architectures.positions import pairing_of_sections, same_positions
from rase_models.program import Activate, Activation, Program, Scale, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build bailingmoe3; in files of models of images, whose positions have several parts, halves turn."""
    _refuse_bounds(b)
    if not b.keys.boolean("kda.safe_gate", True):
        raise b.keys.error("kda.safe_gate", "gates with a bound", "others")
    positions = same_positions(b, pairing_of_sections(b))
    length = b.keys.count("expert_shared_count") * b.sizes.expert_length
    length = b.keys.count("expert_shared_feed_forward_length", length)
    experts = read_experts(b, Scoring.SIGMOID, length)
    return build_decoder(b, Differences(positions, experts=experts), _mix)


def _refuse_bounds(b: ProgramBuilder) -> None:
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        given = b.keys.flags(key) if b.keys.is_array(key) else (b.keys.number(key, 0.0) > 0,)
        if any(given):
            layers = f"some in {sum(given)} of {len(given)} layers"
            raise b.keys.error(key, "no bounds for what experts compute", layers)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a delta rule."""
    if b.sizes.head_counts_kv[layer]:
        rope = differences.positions[layer].rope
        scale = 1 / math.sqrt(read_latent_sizes(b, layer, rope).key_length)
        mixed = attend_latently(b, differences, layer, x, scale)
        return gate_attention(b, mixed, layer, x, Activation.SIGMOID)
    return apply_keyed_delta(b, layer, x, _kept, lambda: _gate(b, layer, x))


def _kept(b: ProgramBuilder, prefix: str, x: str, heads: int, length: int) -> str:
    """Emit exp(bound * logistic((step + bias) * decay)), with a decay for each head."""
    bound = b.keys.negative_number("kda.gate_lower_bound")
    step = b.linear("kept", x, f"{prefix}ssm_f_a", heads * length, bias=f"{prefix}ssm_dt.bias")
    b.emit(Scale(step, step, decays(b, prefix, heads), parts=heads))
    b.emit(Activate(step, step, Activation.SIGMOID))
    b.emit(Scale(step, step, factor=bound))
    b.emit(Activate(step, step, Activation.EXP))
    return step


def _gate(b: ProgramBuilder, layer: int, x: str) -> str:
    width = b.sizes.head_counts[layer] * b.keys.count("kda.head_dim")
    return b.linear("gate", x, f"blk.{layer}.ssm_g_a", width)
