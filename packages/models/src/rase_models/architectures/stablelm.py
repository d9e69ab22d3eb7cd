"""stablelm: StableLM, with layer norms; the 12B's parts work side by side."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build stablelm."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            norm=Norm.LAYER,
            head_norms=HeadNorms.OWN,
            parallel="blk.0.ffn_norm.weight" not in b.tensors,
        ),
    )
