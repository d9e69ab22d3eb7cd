"""qwen3vlmoe: The text of Qwen 3 VL with experts; one position is in all sections of its rotary positions."""

from rase_models.architectures import qwen3
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen3vlmoe, which differs from qwen3 for images alone."""
    return qwen3.build(b)
