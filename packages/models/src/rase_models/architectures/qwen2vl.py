"""qwen2vl: The text of Qwen 2 and 2.5 VL; it has one position in all sections of its rotary positions."""

from rase_models.architectures import qwen2
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build qwen2vl, which differs from qwen2 for images alone."""
    return qwen2.build(b)
