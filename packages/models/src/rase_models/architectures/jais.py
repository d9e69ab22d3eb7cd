"""jais: Jais, whose scores fall with distance (ALiBi), with layer norms and gates."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build jais."""
    return build_decoder(
        b,
        Differences(
            (LayerPositions(None),) * b.sizes.block_count,
            norm=Norm.LAYER,
            alibi=b.keys.number("attention.max_alibi_bias", 0.0),
            attention_scale=1 / b.keys.require("attention.key_length", b.sizes.key_length),
        ),
    )
