"""minimax-m3: MiniMax M3, which attends to chosen blocks of positions; contexts end where it would choose.

Its index scores all positions and attention sees the best blocks. A context of no more blocks than are chosen
needs no index, and longer ones are refused.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing, Scoring

_INDEX = ("q_proj", "k_proj", "q_norm", "k_norm")


def build(b: ProgramBuilder) -> Program:
    """Build minimax-m3."""
    for layer in range(b.sizes.block_count):
        for name in _INDEX:
            b.tensors.ignore(f"blk.{layer}.indexer.{name}.weight")
    blocks, size = b.keys.count("attention.indexer.top_k"), b.keys.count("attention.indexer.block_size")
    b.limit_context(blocks * size)
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            activation=Activation.CLAMPED_SWIGLU,
            required=("attn_q_norm", "attn_k_norm"),
            experts=read_experts(b, Scoring.SIGMOID),
        ),
    )
