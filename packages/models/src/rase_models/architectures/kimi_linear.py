"""kimi-linear: Kimi Linear, three of four layers with a delta rule that forgets key by key, and experts.

The other layers attend to latents, and know no positions.
"""

import math
from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Mixed
from rase_models.architectures.experts import read_experts
from rase_models.architectures.keyed_delta import apply_keyed_delta, kept_of_steps, read_length
from rase_models.architectures.latent_attention import attend_latently, read_latent_sizes
from rase_models.program import Program, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build kimi-linear."""
    positions = (LayerPositions(None),) * b.sizes.block_count
    experts = replace(read_experts(b, Scoring.SIGMOID), normalise=True)
    return build_decoder(b, Differences(positions, experts=experts), _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a delta rule."""
    if b.sizes.head_counts_kv[layer]:
        scale = 1 / math.sqrt(read_latent_sizes(b, layer, None).key_length)
        return attend_latently(b, differences, layer, x, scale)
    return apply_keyed_delta(b, layer, x, kept_of_steps, lambda: _gate(b, layer, x))


def _gate(b: ProgramBuilder, layer: int, x: str) -> str:
    prefix, length = f"blk.{layer}.ssm_g_", read_length(b)
    low = b.linear("gate_low", x, f"{prefix}a", length)
    return b.linear("gate", low, f"{prefix}b", b.sizes.head_counts[layer] * length)
