"""phi2: Phi 1, 1.5 and 2, whose parts work side by side on one layer norm."""

from rase_models.architectures import falcon
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build phi2, which differs from falcon by its biases alone; these count where a file has them."""
    return falcon.build(b)
