"""hunyuan-dense: Hunyuan, which normalises queries and keys after it has turned them."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build hunyuan-dense; its converter has put the stretching of positions into their base."""
    if alpha := b.keys.number("rope.scaling.alpha", 0.0):
        raise b.keys.error("rope.scaling.alpha", "no such key in hunyuan-dense", alpha)
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            head_norms=HeadNorms.AFTER_ROPE,
            required=("attn_q_norm", "attn_k_norm"),
        ),
    )
