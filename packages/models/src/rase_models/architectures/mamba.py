"""mamba: Mamba and Falcon Mamba, whose layers are state spaces, one a channel, and nothing else."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions
from rase_models.architectures.selective_states import scan_channels
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build mamba."""
    positions = (LayerPositions(None),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, feed_forward=FeedForward.NONE), scan_channels)
