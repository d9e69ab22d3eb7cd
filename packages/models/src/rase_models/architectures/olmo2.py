"""olmo2: OLMo 2 and 3, with norms after its parts instead of before them."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms, LayerPositions, Norms
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.architectures.rope import plain_rope, read_base
from rase_models.program import Program, RopePairing

_BASE = 10_000.0
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build olmo2."""
    return build_decoder(
        b,
        Differences(
            _positions(b),
            attention_norms=Norms(None, "post_attention_norm"),
            feed_forward_norms=Norms(None, "post_ffw_norm"),
            head_norms=HeadNorms.TOGETHER,
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        ),
    )


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    """Read the positions; layers with a window turn as fast as the others, but never slowed by a scaling."""
    rope = model_rope(b, RopePairing.HALVES, base=_BASE)
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (LayerPositions(rope),) * b.sizes.block_count
    unscaled = plain_rope(RopePairing.HALVES, rope.dimensions, read_base(b.keys, "rope.freq_base", _BASE))
    return some_windowed(b, LayerPositions(unscaled, window), LayerPositions(rope), period=_PERIOD)
