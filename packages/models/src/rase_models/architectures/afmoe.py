"""afmoe: Trinity, a mixture of experts with gated attention, most of whose layers see a window and turn.

The others see everything and know no positions.
"""

import math
from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.experts import read_experts
from rase_models.architectures.gated_attention import attend_gated
from rase_models.architectures.positions import model_rope, window_flags
from rase_models.program import Program, RopePairing, Scoring

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build afmoe."""
    shared = b.keys.count("expert_shared_count", 0) * b.sizes.expert_length
    differences = Differences(
        _positions(b),
        embedding_scale=math.sqrt(b.sizes.embedding_length),
        required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        experts=read_experts(b, Scoring.SIGMOID, shared),
    )
    return build_decoder(b, differences, attend_gated)


def _positions(b: ProgramBuilder) -> list[LayerPositions]:
    """Read the positions; every fourth layer knows none, whichever layers have a window."""
    window = b.keys.count("attention.sliding_window", 0)
    flags = window_flags(b, _PERIOD) if window else (False,) * b.sizes.block_count
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    local = LayerPositions(model_rope(b, RopePairing.HALVES, window=True), window)
    layers = [local if flag else whole for flag in flags]
    return [replace(at, rope=None) if (n + 1) % _PERIOD == 0 else at for n, at in enumerate(layers)]
