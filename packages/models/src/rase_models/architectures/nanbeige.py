"""nanbeige: Nanbeige, a llama whose rows may go through all layers several times."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing

_MOST_LOOPS = 64


def build(b: ProgramBuilder) -> Program:
    """Build nanbeige."""
    return build_decoder(
        b,
        Differences(
            same_positions(b, RopePairing.ADJACENT),
            feed_forward_scaled=True,
            loops=b.keys.count("num_loops", 1, most=_MOST_LOOPS),
            loops_normed=not b.keys.boolean("skip_loop_final_norm", False),
        ),
    )
