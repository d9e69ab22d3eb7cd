"""chatglm: ChatGLM 3 and GLM-4 9B, with merged matrices."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build chatglm."""
    positions = same_positions(b, RopePairing.ADJACENT)
    return build_decoder(b, Differences(positions, feed_forward=FeedForward.MERGED))
