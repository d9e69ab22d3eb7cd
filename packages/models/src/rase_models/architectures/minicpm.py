"""minicpm: MiniCPM, whose embedding, parts and logits are scaled."""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.granite import build_scaled
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing

EMBEDDING_SCALE = 12.0
DEPTH_SCALE = 1.4
BASE_WIDTH = 256


def build(b: ProgramBuilder) -> Program:
    """Build minicpm."""
    return build_scaled(
        b,
        embedding_scale=EMBEDDING_SCALE,
        residual_scale=DEPTH_SCALE / math.sqrt(b.sizes.block_count),
        logit_divisor=b.sizes.embedding_length / BASE_WIDTH,
        positions=same_positions(b, RopePairing.ADJACENT),
    )
