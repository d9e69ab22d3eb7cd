"""dbrx: DBRX, a mixture of experts with layer norms, whose queries, keys and values are clamped."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, Norms
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build dbrx; what it calls the norm of attention's output comes before the experts."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.HALVES),
            norm=Norm.LAYER,
            attention_norms=Norms("attn_norm", None),
            feed_forward_norms=Norms("attn_output_norm", None),
        ),
    )
