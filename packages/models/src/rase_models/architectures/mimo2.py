"""mimo2: MiMo V2, a mixture of experts whose layers with a window have sinks and other numbers of heads."""

from dataclasses import replace

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, LayerPositions, Mixed
from rase_models.architectures.positions import model_rope, some_windowed, window_rope
from rase_models.program import Program, RopePairing, Scoring

_LOCAL_BASE = 10_000.0


def build(b: ProgramBuilder) -> Program:
    """Build mimo2."""
    window = b.keys.count("attention.sliding_window")
    local = LayerPositions(window_rope(b, RopePairing.HALVES, _LOCAL_BASE), window)
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    differences = Differences(
        some_windowed(b, local, whole, period=None),
        sinks=True,
        experts=Experts(scoring=Scoring.SIGMOID),
    )
    scale = b.keys.number("attention.value_scale", 1.0)

    def mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
        return replace(attend(b, differences, layer, x), factor=scale)

    return build_decoder(b, differences, mix)
