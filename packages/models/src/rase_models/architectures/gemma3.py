"""gemma3: Gemma 3 text models, most of whose layers see a window of positions.

The weights of its norms are stored with the 1 that they are added to.
"""

import math

from rase_models.architectures.block import Differences, LayerPositions, build_decoder, same_positions
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.rope import plain_rope, read_base, read_dimensions
from rase_models.program import Activation, Program, RopePairing

_GLOBAL_BASE = 1_000_000.0
_LOCAL_BASE = 10_000.0
_PERIOD = 6
"""One layer in so many, the last one, sees everything."""

_LAYERS_OF_27B = 62
"""The one size that scales by the embedding's share of a head, and that says so nowhere else in its file."""


def build(b: ProgramBuilder) -> Program:
    """Build gemma3."""
    cap = b.keys.number("final_logit_softcapping", 0.0)
    if cap:
        raise b.keys.error("final_logit_softcapping", "none in gemma3", cap)
    return build_decoder(
        b,
        Differences(
            _positions(b),
            activation=Activation.GELU_TANH,
            embedding_scale=math.sqrt(b.sizes.embedding_length),
            attention_scale=_attention_scale(b),
            required=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
            feed_forward_scaled=False,
        ),
    )


def _attention_scale(b: ProgramBuilder) -> float | None:
    if b.sizes.block_count != _LAYERS_OF_27B:
        return None
    return math.sqrt(b.sizes.head_counts[0] / b.sizes.embedding_length)


def _positions(b: ProgramBuilder) -> tuple[LayerPositions, ...]:
    everything = same_positions(b, RopePairing.HALVES, base=_GLOBAL_BASE)
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return everything
    base = read_base(b.keys, "rope.freq_base_swa", _LOCAL_BASE)
    rope = plain_rope(RopePairing.HALVES, read_dimensions(b.keys, b.sizes.key_length), base)
    local = LayerPositions(rope, window)
    return tuple(
        local if windowed else whole for windowed, whole in zip(_windowed(b), everything, strict=True)
    )


def _windowed(b: ProgramBuilder) -> tuple[bool, ...]:
    """Tell for each layer whether it sees only the window: a period, or a bool for each layer."""
    key, layers = "attention.sliding_window_pattern", b.sizes.block_count
    if not b.keys.is_array(key):
        period = b.keys.count(key, _PERIOD)
        return tuple((layer + 1) % period != 0 for layer in range(layers))
    flags = b.keys.flags(key)
    if len(flags) != layers:
        raise b.keys.error(key, f"{layers} bools", f"{len(flags)} of them")
    return flags
