"""qwen: the first Qwen, whose files give twice the inner width of its feed-forward networks."""

from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen."""
    halves = tuple(length // 2 for length in b.sizes.feed_forward_lengths)
    b.sizes = replace(b.sizes, feed_forward_lengths=halves)
    return build_decoder(b, Differences(same_positions(b, RopePairing.HALVES)))
