"""ernie4_5-moe: ERNIE 4.5's mixtures of experts, in some of their layers."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build ernie4_5-moe."""
    choice = Experts(shared_length=b.keys.count("expert_shared_feed_forward_length", 0))
    return build_decoder(b, Differences(same_positions(b, RopePairing.ADJACENT), experts=choice))
