"""openelm: OpenELM, whose layers differ in their numbers of heads and widths of networks."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build openelm."""
    positions = same_positions(b, RopePairing.HALVES)
    return build_decoder(b, Differences(positions, required=("attn_q_norm", "attn_k_norm")))
