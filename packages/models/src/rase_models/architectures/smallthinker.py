"""smallthinker: SmallThinker, whose experts are chosen by what a layer begins with, and rectify their gates.

Three of four layers turn, and see a window if the file has one; the others see everything.
"""

from dataclasses import replace

from rase_models.architectures.attention import attend
from rase_models.architectures.block import ROWS, build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, LayerPositions, Mixed
from rase_models.architectures.experts import choose_experts, read_scoring
from rase_models.architectures.positions import model_rope, window_flags
from rase_models.program import Activation, Program, RopePairing, Scoring

_PERIOD = 4
_WINDOW = 4096
"""Whatever number the file has."""


def build(b: ProgramBuilder) -> Program:
    """Build smallthinker."""
    differences = Differences(
        _positions(b),
        activation=Activation.RELU,
        experts=Experts(scoring=read_scoring(b, Scoring.SOFTMAX, Scoring.SIGMOID)),
    )
    return build_decoder(b, differences, _mix, _network)


def _positions(b: ProgramBuilder) -> list[LayerPositions]:
    """Read the positions; without a window all layers turn, whichever have one otherwise."""
    layers = b.sizes.block_count
    if not b.keys.count("attention.sliding_window", 0):
        return [LayerPositions(model_rope(b, RopePairing.HALVES))] * layers
    flags = window_flags(b, _PERIOD, whole_first=True)
    rope, local = (model_rope(b, RopePairing.HALVES, window=window) for window in (False, True))
    seen = [LayerPositions(local, _WINDOW) if flag else LayerPositions(rope) for flag in flags]
    return [at if layer % _PERIOD else replace(at, rope=None) for layer, at in enumerate(seen)]


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    width = b.width(ROWS)
    began = b.copy_parts("began", ROWS, 1, width, width)
    return replace(attend(b, differences, layer, x), kept=began)


def _network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    return choose_experts(b, differences, layer, x, b.selected("began"))
