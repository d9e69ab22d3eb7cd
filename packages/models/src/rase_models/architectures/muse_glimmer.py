"""muse-glimmer: Muse Glimmer, with gated attention, three of four layers of which see a window and turn.

The others see everything and know no positions. Rows are normalised before the first layer, and there are
norms before and after parts.
"""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Norms
from rase_models.architectures.gated_attention import attend_gated
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Program, RopePairing

_PERIOD = 4
_EPSILON_AFTER = 1e-8


def build(b: ProgramBuilder) -> Program:
    """Build muse-glimmer."""
    window = b.keys.count("attention.sliding_window")
    windowed = LayerPositions(model_rope(b, RopePairing.ADJACENT, window=True), window)
    differences = Differences(
        some_windowed(b, windowed, LayerPositions(None), period=_PERIOD),
        embedding_norm="",
        attention_norms=Norms("attn_norm", "post_attention_norm", _EPSILON_AFTER),
        feed_forward_norms=Norms("ffn_norm", "post_ffw_norm", _EPSILON_AFTER),
        required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        logit_scale=b.keys.number("logit_scale"),
        logit_cap=b.keys.number("final_logit_softcapping", 0.0),
    )
    return build_decoder(b, differences, attend_gated)
