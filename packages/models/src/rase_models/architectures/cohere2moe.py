"""cohere2moe: Mixtures of experts of Cohere 2, whose parts work side by side on one norm.

Three of four layers see a window and turn; of the others, which see everything, only dense ones turn.
"""

from dataclasses import replace

from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, LayerPositions
from rase_models.architectures.experts import read_experts
from rase_models.architectures.positions import model_rope, window_flags
from rase_models.program import Program, RopePairing, Scoring

_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build cohere2moe."""
    has_layer_norms = b.keys.number(Norm.RMS.value, 0.0) == 0
    return build_decoder(
        b,
        Differences(
            _positions(b),
            norm=Norm.LAYER if has_layer_norms else Norm.RMS,
            parallel=True,
            feed_forward_scaled=True,
            logit_scale=b.keys.number("logit_scale", 1.0),
            experts=_experts(b),
        ),
    )


def _experts(b: ProgramBuilder) -> Experts:
    """Read the choice of experts; what they make and what all rows go through are averaged."""
    count = b.keys.count("expert_shared_count", 0)
    if not count:
        return read_experts(b, Scoring.SIGMOID, 0)
    shared = b.keys.count("expert_shared_feed_forward_length", count * b.sizes.expert_length)
    return replace(read_experts(b, Scoring.SIGMOID, shared), factor=0.5)


def _positions(b: ProgramBuilder) -> list[LayerPositions]:
    rope, window = model_rope(b, RopePairing.ADJACENT), b.keys.count("attention.sliding_window")
    dense = b.keys.count("leading_dense_block_count", 0)
    whole = [LayerPositions(rope if layer < dense else None) for layer in range(b.sizes.block_count)]
    flags = window_flags(b, _PERIOD, whole_first=True)
    return [LayerPositions(rope, window) if flag else at for flag, at in zip(flags, whole, strict=True)]
