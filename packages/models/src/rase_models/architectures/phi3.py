"""phi3: Phi 3, 3.5 and 4, with merged matrices."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build phi3; a window counts where the file gives one."""
    window = b.keys.count("attention.sliding_window", 0) or None
    positions = same_positions(b, RopePairing.HALVES, window=window)
    return build_decoder(b, Differences(positions, feed_forward=FeedForward.MERGED))
