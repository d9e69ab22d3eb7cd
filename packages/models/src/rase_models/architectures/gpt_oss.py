"""gpt-oss: gpt-oss 20B and 120B, with biased experts, a sink for every head, windows in every other layer.

What it calls the norm after attention comes before the feed-forward network.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Norms
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Activation, Program, RopePairing

_PERIOD = 2


def build(b: ProgramBuilder) -> Program:
    """Build gpt-oss; a softmax over the chosen experts is one over all that is normalised."""
    whole = LayerPositions(model_rope(b, RopePairing.HALVES))
    window = b.keys.count("attention.sliding_window")
    windowed = LayerPositions(model_rope(b, RopePairing.HALVES, window=True), window)
    return build_decoder(
        b,
        Differences(
            some_windowed(b, windowed, whole, period=_PERIOD),
            activation=Activation.CLAMPED_SWIGLU,
            attention_norms=Norms("attn_norm", None),
            feed_forward_norms=Norms("post_attention_norm", None),
            required=("attn_sinks",),
        ),
    )
