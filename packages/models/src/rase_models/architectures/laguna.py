"""laguna: Laguna, a mixture of experts whose attention is gated, most of whose layers may see a window."""

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions, Mixed
from rase_models.architectures.experts import read_experts
from rase_models.architectures.gated_attention import gate_attention
from rase_models.architectures.positions import model_rope, some_windowed, window_rope
from rase_models.architectures.rope import read_base
from rase_models.program import Activation, Program, RopePairing, Scoring

_BASE = 10_000.0
_PERIOD = 4


def build(b: ProgramBuilder) -> Program:
    """Build laguna."""
    shared = b.keys.count("expert_shared_feed_forward_length")
    differences = Differences(
        _positions(b),
        required=("attn_q_norm", "attn_k_norm"),
        experts=read_experts(b, Scoring.SIGMOID, shared),
    )
    return build_decoder(b, differences, _attend)


def _attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    return gate_attention(b, attend(b, differences, layer, x), layer, x, Activation.SOFTPLUS)


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    """Read the positions; in layers with a window other elements turn, at another pace, never scaled."""
    whole = LayerPositions(model_rope(b, RopePairing.HALVES, base=_BASE))
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (whole,) * b.sizes.block_count
    rope = window_rope(b, RopePairing.HALVES, read_base(b.keys, "rope.freq_base", _BASE))
    local = LayerPositions(rope, window)
    return some_windowed(b, local, whole, period=_PERIOD, whole_first=True)
