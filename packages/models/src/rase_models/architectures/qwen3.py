"""qwen3: Qwen 3, with norms of queries and keys."""

from rase_models.architectures.block import Differences, build_decoder, same_positions
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build qwen3."""
    positions = same_positions(b, RopePairing.HALVES)
    return build_decoder(b, Differences(positions, required=("attn_q_norm", "attn_k_norm")))
