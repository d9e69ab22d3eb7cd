"""arwkv7: ARWKV 7, Qwen 2 with RWKV 7's recurrence in place of attention."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Mixed
from rase_models.architectures.rwkv7 import mix_times
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build arwkv7."""
    return build_decoder(b, Differences((LayerPositions(None),) * b.sizes.block_count), _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    return mix_times(b, layer, x)
