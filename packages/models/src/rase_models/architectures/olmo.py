"""olmo: OLMo 1, whose layer norms have no weights."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build olmo."""
    positions = same_positions(b, RopePairing.ADJACENT)
    return build_decoder(b, Differences(positions, norm=Norm.LAYER, norm_weights=False))
