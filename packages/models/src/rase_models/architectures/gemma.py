"""gemma: Gemma 1, CodeGemma.

The weights of its norms are stored with the 1 that they are added to.
"""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build gemma."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            activation=Activation.GELU_TANH,
            embedding_scale=math.sqrt(b.sizes.embedding_length),
        ),
    )
