"""mpt: MPT and Replit Code, whose scores fall with distance (ALiBi) or which learned their positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, HeadNorms, LayerPositions
from rase_models.program import Activation, Program


def build(b: ProgramBuilder) -> Program:
    """Build mpt."""
    return build_decoder(
        b,
        Differences(
            (LayerPositions(None),) * b.sizes.block_count,
            norm=Norm.LAYER,
            head_norms=HeadNorms.TOGETHER,
            alibi=b.keys.number("attention.max_alibi_bias", 0.0),
            learned_positions="position_embd.weight" in b.tensors,
            feed_forward=FeedForward.PLAIN,
            activation=Activation.GELU_TANH,
        ),
    )
