"""mistral4: Mistral Small 4, with attention over latents, and experts."""

from rase_models.architectures import deepseek2
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build mistral4, a deepseek2 under another name."""
    return deepseek2.build(b)
