"""deepseek2-ocr: The text of DeepSeek OCR, a mixture of experts with plain attention."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build deepseek2-ocr."""
    positions = same_positions(b, RopePairing.HALVES)
    return build_decoder(b, Differences(positions, experts=read_experts(b, Scoring.SOFTMAX)))
