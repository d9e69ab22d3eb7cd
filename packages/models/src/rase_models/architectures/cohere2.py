"""cohere2: Command R7B and Command A, whose parts work side by side on one layer norm.

Three of four layers see a window and turn; the others see everything and know no positions.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Program, RopePairing

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build cohere2."""
    window = b.keys.count("attention.sliding_window")
    windowed = LayerPositions(model_rope(b, RopePairing.ADJACENT), window)
    return build_decoder(
        b,
        Differences(
            some_windowed(b, windowed, LayerPositions(None), period=_PERIOD),
            norm=Norm.LAYER,
            parallel=True,
            feed_forward_scaled=True,
            logit_scale=b.keys.number("logit_scale"),
        ),
    )
