"""hy_v3: Hunyuan 3, a mixture of experts after some dense layers, with norms of queries and keys."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build hy_v3."""
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.expert_length)
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            required=("attn_q_norm", "attn_k_norm"),
            feed_forward_scaled=True,
            experts=read_experts(b, Scoring.SIGMOID, shared),
        ),
    )
