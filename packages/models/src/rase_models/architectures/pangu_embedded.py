"""pangu-embedded: openPangu Embedded 1B and 7B, with biases on queries, keys, values and what they become."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build pangu-embedded."""
    return build_decoder(b, Differences(same_positions(b, RopePairing.HALVES)))
