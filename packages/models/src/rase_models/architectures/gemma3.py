"""gemma3: Gemma 3 text models, most of whose layers see a window of positions.

The weights of its norms are stored with the 1 that they are added to.
"""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.positions import model_rope, some_windowed, window_rope
from rase_models.program import Activation, Program, RopePairing

_GLOBAL_BASE = 1_000_000.0
_LOCAL_BASE = 10_000.0
_PERIOD = 6

_LAYERS_OF_27B = 62
"""The one size that scales by the embedding's share of a head, and that says so nowhere else in its file."""


def build(b: ProgramBuilder) -> Program:
    """Build gemma3."""
    return build_decoder(
        b,
        Differences(
            _positions(b),
            activation=Activation.GELU_TANH,
            embedding_scale=math.sqrt(b.sizes.embedding_length),
            attention_scale=scale_of_size(b, _LAYERS_OF_27B),
            logit_cap=b.keys.number("final_logit_softcapping", 0.0),
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        ),
    )


def scale_of_size(b: ProgramBuilder, layers_of_27b: int) -> float | None:
    """Return what scores are multiplied by, where that is not the length of a head."""
    if b.sizes.block_count != layers_of_27b:
        return None
    return math.sqrt(b.sizes.head_counts[0] / b.sizes.embedding_length)


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    whole = LayerPositions(model_rope(b, RopePairing.HALVES, base=_GLOBAL_BASE))
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (whole,) * b.sizes.block_count
    local = LayerPositions(window_rope(b, RopePairing.HALVES, _LOCAL_BASE), window)
    return some_windowed(b, local, whole, period=_PERIOD)
