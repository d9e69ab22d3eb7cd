"""deepseek32: DeepSeek 3.2, which attends to chosen positions alone; contexts end where it would choose.

Its index scores all positions and attention sees the best of them. A context of no more positions than are
chosen needs no index, and longer ones are refused.
"""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.deepseek2 import build_latent
from rase_models.program import Program, Scoring

_INDEX = ("k_norm.weight", "k_norm.bias", "proj.weight", "attn_k.weight", "attn_q_b.weight")


def build(b: ProgramBuilder) -> Program:
    """Build deepseek32."""
    return build_indexed(b, Scoring.SIGMOID)


def build_indexed(b: ProgramBuilder, default: Scoring) -> Program:
    """Build a decoder for contexts that its index chooses all of."""
    for layer in range(b.sizes.block_count):
        for name in _INDEX:
            b.tensors.ignore(f"blk.{layer}.indexer.{name}")
    b.limit_context(b.keys.count("attention.indexer.top_k"))
    return build_latent(b, default)
