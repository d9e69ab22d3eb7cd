"""spark2_5: Spark 2.5, whose heads are gated one by one, most of whose layers see a window of positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.gated_attention import attend_gated
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Activation, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build spark2_5."""
    window = b.keys.count("attention.sliding_window")
    windowed = LayerPositions(model_rope(b, RopePairing.HALVES, window=True), window)
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    differences = Differences(some_windowed(b, windowed, whole, period=None), activation=Activation.GELU_TANH)
    return build_decoder(b, differences, attend_gated)
