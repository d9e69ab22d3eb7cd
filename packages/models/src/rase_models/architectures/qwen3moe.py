"""qwen3moe: Mixtures of Qwen 3, with norms of queries and keys."""

from rase_models.architectures import qwen3
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen3moe: a qwen3 whose layers have experts, where their tensors say so."""
    return qwen3.build(b)
