"""qwen3vl: The text of Qwen 3 VL; it has one position in all sections of its rotary positions."""

from rase_models.architectures import qwen3
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen3vl, which differs from qwen3 for images alone."""
    return qwen3.build(b)
