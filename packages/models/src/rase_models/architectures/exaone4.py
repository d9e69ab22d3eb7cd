"""exaone4: EXAONE 4, with norms after its parts instead of before them.

In the 32B three of four layers see a window and turn; the others see everything and know no positions.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Norms
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Program, RopePairing

_LAYERS_OF_32B = 64
_WINDOW = 4096
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build exaone4."""
    return build_decoder(
        b,
        Differences(
            _positions(b),
            attention_norms=Norms(None, "post_attention_norm"),
            feed_forward_norms=Norms(None, "post_ffw_norm"),
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        ),
    )


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    rope = model_rope(b, RopePairing.HALVES)
    if b.sizes.block_count != _LAYERS_OF_32B:
        return (LayerPositions(rope),) * b.sizes.block_count
    windowed = LayerPositions(rope, b.keys.count("attention.sliding_window", _WINDOW))
    return some_windowed(b, windowed, LayerPositions(None), period=_PERIOD)
