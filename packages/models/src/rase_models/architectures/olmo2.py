"""olmo2: OLMo 2 and 3, with norms after its parts instead of before them."""

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms, Norms
from rase_models.architectures.positions import unscaled_windows
from rase_models.program import Program

_BASE = 10_000.0
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build olmo2."""
    return build_decoder(
        b,
        Differences(
            unscaled_windows(b, base=_BASE, period=_PERIOD),
            attention_norms=Norms(None, "post_attention_norm"),
            feed_forward_norms=Norms(None, "post_ffw_norm"),
            head_norms=HeadNorms.TOGETHER,
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        ),
    )
