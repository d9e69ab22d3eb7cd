"""glm-dsa: GLM-5 to 5.2, which attend to chosen positions alone; contexts end where they would choose."""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.deepseek32 import build_indexed
from rase_models.program import Program, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build glm-dsa, a deepseek32 some of whose layers share an index."""
    return build_indexed(b, Scoring.SIGMOID)
