"""glm4: GLM-4, with norms before and after its parts."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build glm4; in files of its models of images, whose positions have several parts, halves turn."""
    key = "rope.dimension_sections"
    sections = b.keys.is_array(key) and any(b.keys.flags(key))
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES if sections else RopePairing.ADJACENT),
            feed_forward=FeedForward.MERGED,
            required=("post_attention_norm", "post_ffw_norm"),
        ),
    )
