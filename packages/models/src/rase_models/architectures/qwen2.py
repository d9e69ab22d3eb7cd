"""qwen2: Qwen 1.5, 2 and 2.5, with biases on queries, keys and values."""

from rase_models.architectures.block import Differences, build_decoder, same_positions
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen2; the scalars of its feed-forward matrices do not count."""
    positions = same_positions(b, RopePairing.HALVES)
    return build_decoder(b, Differences(positions, feed_forward_scaled=False))
