"""hunyuan-moe: Hunyuan's mixtures of experts, with one that every row goes to.

Queries and keys are normalised after they have been turned.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, HeadNorms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build hunyuan-moe."""
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.feed_forward_lengths[0])
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            head_norms=HeadNorms.AFTER_ROPE,
            required=("attn_q_norm", "attn_k_norm"),
            experts=Experts(shared_length=shared),
        ),
    )
