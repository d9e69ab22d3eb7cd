"""deepseek: the first DeepSeek MoE, whose first layers are dense."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build deepseek."""
    shared = b.keys.count("expert_shared_count") * b.sizes.expert_length
    positions = same_positions(b, RopePairing.ADJACENT)
    return build_decoder(b, Differences(positions, experts=Experts(normalise=False, shared_length=shared)))
