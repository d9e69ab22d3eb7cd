"""minicpm: MiniCPM, whose embedding, parts and logits are scaled."""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.granite import build_scaled
from rase_models.program import Program

_EMBEDDING_SCALE = 12.0
_DEPTH_SCALE = 1.4
_BASE_WIDTH = 256


def build(b: ProgramBuilder) -> Program:
    """Build minicpm."""
    return build_scaled(
        b,
        embedding_scale=_EMBEDDING_SCALE,
        residual_scale=_DEPTH_SCALE / math.sqrt(b.sizes.block_count),
        logit_divisor=_BASE_WIDTH / b.sizes.embedding_length,
    )
