"""qwen2moe: Mixtures of Qwen 1.5 and 2, with an expert that every row goes to, weighed by the row."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen2moe."""
    shared = b.keys.count("expert_shared_feed_forward_length", b.sizes.feed_forward_lengths[0])
    positions = same_positions(b, RopePairing.HALVES)
    return build_decoder(b, Differences(positions, experts=Experts(normalise=False, shared_length=shared)))
