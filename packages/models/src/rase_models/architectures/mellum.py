"""mellum: Mellum 2, a mixture of experts most of whose layers see a window of positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.architectures.rope import plain_rope, read_base
from rase_models.program import Program, RopePairing

_BASE = 10_000.0
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build mellum."""
    return build_decoder(b, Differences(_positions(b), required=("attn_q_norm", "attn_k_norm")))


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    """Read the positions; layers with a window turn as fast as the others, but never slowed by a scaling."""
    rope = model_rope(b, RopePairing.HALVES, base=_BASE)
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (LayerPositions(rope),) * b.sizes.block_count
    unscaled = plain_rope(RopePairing.HALVES, rope.dimensions, read_base(b.keys, "rope.freq_base", _BASE))
    return some_windowed(b, LayerPositions(unscaled, window), LayerPositions(rope), period=_PERIOD)
