"""glm4moe: GLM-4.5 to 4.7, mixtures of experts after some dense layers, with one that every row goes to.

What it calls the norm after attention comes before the feed-forward network.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Norms
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build glm4moe."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            attention_norms=Norms("attn_norm", None),
            feed_forward_norms=Norms("post_attention_norm", None),
            experts=read_experts(b, Scoring.SIGMOID),
        ),
    )
