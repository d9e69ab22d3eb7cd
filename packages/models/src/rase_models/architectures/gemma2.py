"""gemma2: Gemma 2, with soft caps, every other layer seeing a window of positions.

The weights of its norms are stored with the 1 that they are added to.
"""

import math

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.gemma3 import scale_of_size
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Activation, Program, RopePairing

_WINDOW = 4096
_PERIOD = 2
_ATTENTION_CAP = 50.0
_LOGIT_CAP = 30.0
_LAYERS_OF_27B = 46


def build(b: ProgramBuilder) -> Program:
    """Build gemma2."""
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    window = b.keys.count("attention.sliding_window", _WINDOW)
    windowed = LayerPositions(model_rope(b, RopePairing.HALVES, window=True), window)
    return build_decoder(
        b,
        Differences(
            some_windowed(b, windowed, whole, period=_PERIOD),
            activation=Activation.GELU_TANH,
            embedding_scale=math.sqrt(b.sizes.embedding_length),
            attention_scale=scale_of_size(b, _LAYERS_OF_27B),
            attention_cap=b.keys.number("attn_logit_softcapping", _ATTENTION_CAP),
            logit_cap=b.keys.number("final_logit_softcapping", _LOGIT_CAP),
            required=("post_attention_norm", "post_ffw_norm"),
        ),
    )
