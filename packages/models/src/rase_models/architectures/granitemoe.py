"""granitemoe: Granite 3 and 4 with experts, whose embedding, parts, scores and logits are scaled."""

from rase_models.architectures import granite
from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build granitemoe: a granite whose layers have experts, where their tensors say so."""
    return granite.build(b)
