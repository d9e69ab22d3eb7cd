"""minicpm3: MiniCPM 3, with attention over latents, whose embedding, parts and logits are scaled."""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.latent_attention import attend_latently
from rase_models.architectures.minicpm import BASE_WIDTH, DEPTH_SCALE, EMBEDDING_SCALE
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build minicpm3."""
    differences = Differences(
        same_positions(b, RopePairing.HALVES),
        embedding_scale=EMBEDDING_SCALE,
        residual_scale=DEPTH_SCALE / math.sqrt(b.sizes.block_count),
        logit_scale=BASE_WIDTH / b.sizes.embedding_length,
    )
    return build_decoder(b, differences, _attend)


def _attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    length = b.keys.require("attention.key_length", b.sizes.key_length)
    return attend_latently(b, differences, layer, x, 1 / math.sqrt(length))
