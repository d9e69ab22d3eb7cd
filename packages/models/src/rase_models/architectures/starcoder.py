"""starcoder: StarCoder and SantaCoder, a gpt2 with fewer heads of keys and values."""

from rase_models.architectures import gpt2
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build starcoder."""
    return gpt2.build(b)
