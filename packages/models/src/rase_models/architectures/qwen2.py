"""qwen2: Qwen 1.5, 2 and 2.5, with biases on queries, keys and values."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen2."""
    return build_decoder(b, Differences(same_positions(b, RopePairing.HALVES)))
