"""olmoe: OLMoE, a mixture of experts with norms over all heads of queries and keys together."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, HeadNorms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build olmoe."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            head_norms=HeadNorms.TOGETHER,
            required=("attn_q_norm", "attn_k_norm"),
            experts=Experts(normalise=False),
        ),
    )
