"""phi2: Phi 1, 1.5 and 2, whose parts work side by side on one layer norm."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build phi2."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            norm=Norm.LAYER,
            parallel=True,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
