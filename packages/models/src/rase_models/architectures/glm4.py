"""glm4: GLM-4, with norms before and after its parts."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.positions import pairing_of_sections, same_positions
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build glm4; in files of its models of images, whose positions have several parts, halves turn."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, pairing_of_sections(b)),
            feed_forward=FeedForward.MERGED,
            required=("post_attention_norm", "post_ffw_norm"),
        ),
    )
