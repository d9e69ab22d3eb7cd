"""lfm2moe: LFM2's mixtures of experts, most of whose layers are gated convolutions over a few tokens."""

from rase_models.architectures import lfm2
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Experts
from rase_models.architectures.experts import read_scoring
from rase_models.program import Program, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build lfm2moe."""
    return lfm2.build_with(b, Experts(scoring=read_scoring(b, Scoring.SIGMOID, Scoring.SOFTMAX)))
