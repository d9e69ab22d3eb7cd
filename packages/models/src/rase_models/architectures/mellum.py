"""mellum: Mellum 2, a mixture of experts most of whose layers see a window of positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.positions import unscaled_windows
from rase_models.program import Program

_BASE = 10_000.0
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build mellum."""
    return build_decoder(
        b,
        Differences(unscaled_windows(b, base=_BASE, period=_PERIOD), required=("attn_q_norm", "attn_k_norm")),
    )
