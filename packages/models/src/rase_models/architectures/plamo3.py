"""plamo3: PLaMo 3, with norms before and after its parts, most of whose layers see a window of positions."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions
from rase_models.architectures.positions import model_rope, some_windowed, window_rope
from rase_models.program import Program, RopePairing

_LOCAL_BASE = 10_000.0
_PERIOD = 8


def build(b: ProgramBuilder) -> Program:
    """Build plamo3."""
    return build_decoder(
        b,
        Differences(
            _positions(b),
            feed_forward=FeedForward.MERGED,
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        ),
    )


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (whole,) * b.sizes.block_count
    local = LayerPositions(window_rope(b, RopePairing.HALVES, _LOCAL_BASE), window)
    return some_windowed(b, local, whole, period=_PERIOD)
