"""gpt2: GPT-2, with learned positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions
from rase_models.program import Activation, Program


def build(b: ProgramBuilder) -> Program:
    """Build gpt2."""
    return build_decoder(
        b,
        Differences(
            (LayerPositions(None),) * b.sizes.block_count,
            learned_positions=True,
            norm=Norm.LAYER,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
