"""smollm3: SmolLM 3, in which every fourth layer knows no positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.positions import model_rope
from rase_models.program import Program, RopePairing

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build smollm3."""
    turned = LayerPositions(model_rope(b, RopePairing.ADJACENT))
    layers = range(1, b.sizes.block_count + 1)
    positions = [LayerPositions(None) if layer % _PERIOD == 0 else turned for layer in layers]
    return build_decoder(b, Differences(positions))
