"""starcoder2: StarCoder 2, with layer norms, biases and no gates."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build starcoder2; a window counts where the file gives one."""
    window = b.keys.count("attention.sliding_window", 0) or None
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES, window=window),
            norm=Norm.LAYER,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
