"""bloom: BLOOM, whose scores fall with distance (ALiBi), with a norm of the embedding."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions
from rase_models.program import Activation, Program

_ALIBI = 8.0


def build(b: ProgramBuilder) -> Program:
    """Build bloom."""
    return build_decoder(
        b,
        Differences(
            (LayerPositions(None),) * b.sizes.block_count,
            norm=Norm.LAYER,
            embedding_norm="token_embd_norm",
            alibi=_ALIBI,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
