"""arcee: Arcee's AFM, llama with squares of rectified values in plain feed-forward networks."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build arcee."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.ADJACENT),
            feed_forward=FeedForward.PLAIN,
            activation=Activation.RELU_SQUARED,
        ),
    )
