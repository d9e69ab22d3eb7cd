"""mistral3: Ministral 3, whose queries grow beyond the context that it was first trained for."""

from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.hyperparameters import MAX_POSITION
from rase_models.architectures.positions import model_rope
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build mistral3."""
    rope = model_rope(b, RopePairing.ADJACENT)
    growth = b.keys.number("attention.temperature_scale", 0.0)
    grown = None
    if growth:
        key, length = "rope.scaling.original_context_length", b.sizes.context_length
        grown = replace(rope, growth=growth, growth_length=b.keys.count(key, length, most=MAX_POSITION))
    positions = (LayerPositions(rope, query_rope=grown),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, feed_forward_scaled=True))
