"""qwen3: Qwen 3, with norms of queries and keys."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen3."""
    positions = same_positions(b, RopePairing.HALVES)
    required = ("attn_q_norm", "attn_k_norm")
    return build_decoder(b, Differences(positions, required=required, feed_forward_scaled=True))
