"""minimax-m2: MiniMax M2, a mixture of experts with norms over all heads of queries and keys together."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, HeadNorms
from rase_models.architectures.experts import read_scoring
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build minimax-m2."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            head_norms=HeadNorms.TOGETHER,
            required=("attn_q_norm", "attn_k_norm"),
            experts=Experts(scoring=read_scoring(b, Scoring.SIGMOID, Scoring.SOFTMAX)),
        ),
    )
