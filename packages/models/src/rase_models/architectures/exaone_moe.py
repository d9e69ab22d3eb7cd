"""exaone-moe: K-EXAONE, a mixture of experts three of four layers of which see a window and turn.

The others see everything and know no positions.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Program, RopePairing, Scoring

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build exaone-moe."""
    windowed = LayerPositions(model_rope(b, RopePairing.HALVES), b.keys.count("attention.sliding_window"))
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.expert_length)
    return build_decoder(
        b,
        Differences(
            some_windowed(b, windowed, LayerPositions(None), period=_PERIOD),
            required=("attn_q_norm", "attn_k_norm"),
            experts=read_experts(b, Scoring.SIGMOID, shared),
        ),
    )
