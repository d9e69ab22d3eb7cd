"""nemotron: Nemotron 4 and Minitron, with layer norms and squares of rectified values."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build nemotron."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            norm=Norm.LAYER,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.RELU_SQUARED,
        ),
    )
