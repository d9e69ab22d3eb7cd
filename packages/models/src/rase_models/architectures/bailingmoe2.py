"""bailingmoe2: Ling 2 and Ring 2, with norms of heads and experts in groups."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build bailingmoe2."""
    length = b.keys.count("expert_shared_feed_forward_length", b.sizes.expert_length)
    shared = length * b.keys.count("expert_shared_count")
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            experts=read_experts(b, Scoring.SIGMOID, shared),
            required=("attn_q_norm", "attn_k_norm"),
        ),
    )
