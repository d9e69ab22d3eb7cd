"""jais2: Jais 2, with layer norms, rotary positions and squares of rectified values."""

from rase_models.architectures import nemotron
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build jais2, which differs from nemotron by its biases alone; these count where a file has them."""
    return nemotron.build(b)
