"""plm: PLM 1.8B, with attention over latents and squares of rectified values."""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, Mixed
from rase_models.architectures.latent_attention import attend_latently
from rase_models.architectures.positions import same_positions
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build plm."""
    differences = Differences(
        same_positions(b, RopePairing.ADJACENT),
        feed_forward=FeedForward.PLAIN,
        activation=Activation.RELU_SQUARED,
    )
    return build_decoder(b, differences, _attend)


def _attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    length = b.keys.require("attention.key_length", b.sizes.key_length)
    return attend_latently(b, differences, layer, x, 1 / math.sqrt(length))
