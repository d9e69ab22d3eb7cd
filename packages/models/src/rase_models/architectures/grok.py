"""grok: Grok 1 and 2, with soft caps, and dense networks that may work beside the experts."""

import math

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Norms
from rase_models.architectures.experts import choose_experts
from rase_models.architectures.feed_forward import feed_down, feed_up
from rase_models.architectures.positions import model_rope
from rase_models.program import Activation, Add, Program, RopePairing

_EMBEDDING_SCALE = 78.38367176906169
_ATTENTION_SCALE = 0.08838834764831845
_LOGIT_SCALE = 0.5773502691896257
_ATTENTION_CAP = 30.0
_BETA_FAST = 8.0


def build(b: ProgramBuilder) -> Program:
    """Build grok; the scales and caps of the first one hold where a file has none."""
    last = "layer_output_norm" if "blk.0.layer_output_norm.weight" in b.tensors else "post_ffw_norm"
    rope = model_rope(b, RopePairing.HALVES, beta_fast=_BETA_FAST)
    differences = Differences(
        (LayerPositions(rope),) * b.sizes.block_count,
        activation=Activation.GELU_TANH,
        attention_norms=Norms("attn_norm", "attn_output_norm"),
        feed_forward_norms=Norms("ffn_norm", last),
        required=("attn_output_norm", last),
        embedding_scale=b.keys.number("embedding_scale", _EMBEDDING_SCALE),
        attention_scale=b.keys.number("attention.output_scale", _ATTENTION_SCALE),
        attention_cap=b.keys.number("attn_logit_softcapping", _ATTENTION_CAP),
        logit_scale=b.keys.number("logit_scale", _LOGIT_SCALE),
        logit_cap=b.keys.number("final_logit_softcapping", 0.0),
    )
    return build_decoder(b, differences, attend, _network)


def _network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the experts and, where the layer has one, the dense network."""
    update = choose_experts(b, differences, layer, x)
    if f"blk.{layer}.ffn_up.weight" in b.tensors:
        dense = feed_down(b, differences, layer, feed_up(b, differences, layer, x), "dense")
        b.emit(Add(update, update, dense, math.sqrt(0.5)))
    return update
