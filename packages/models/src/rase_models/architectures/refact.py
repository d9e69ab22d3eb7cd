"""refact: Refact, llama whose scores fall with distance (ALiBi)."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.program import Program

_ALIBI = 8.0


def build(b: ProgramBuilder) -> Program:
    """Build refact."""
    positions = (LayerPositions(None),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, alibi=_ALIBI))
