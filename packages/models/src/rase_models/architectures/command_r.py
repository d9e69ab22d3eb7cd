"""command-r: Command R and R+, whose parts work side by side on one layer norm."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build command-r; the larger one has norms of queries and keys."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.ADJACENT),
            norm=Norm.LAYER,
            head_norms=HeadNorms.OWN,
            parallel=True,
            logit_scale=b.keys.number("logit_scale", 1.0),
        ),
    )
