"""How the layers of a model treat positions: alike, or some with a window and some without."""

from collections.abc import Sequence

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import LayerPositions
from rase_models.architectures.rope import plain_rope, read_base, read_dimensions, read_rope
from rase_models.program import Rope, RopePairing


def pairing_of_sections(b: ProgramBuilder) -> RopePairing:
    """Tell what turns where models of images, whose positions have several sections, have another pairing."""
    key = "rope.dimension_sections"
    sections = b.keys.is_array(key) and any(b.keys.flags(key))
    return RopePairing.HALVES if sections else RopePairing.ADJACENT


def same_positions(
    b: ProgramBuilder, pairing: RopePairing, *, base: float = 10000.0, window: int | None = None
) -> tuple[LayerPositions, ...]:
    """Read the rotary positions of a model whose layers are all alike; `base` is the default."""
    return (LayerPositions(model_rope(b, pairing, base=base), window),) * b.sizes.block_count


def model_rope(
    b: ProgramBuilder,
    pairing: RopePairing,
    *,
    base: float = 10000.0,
    beta_fast: float = 32.0,
    window: bool = False,
) -> Rope:
    """Read the rotary positions of the layers that see everything; `base` and `beta_fast` are the defaults.

    With `window`, those of the others, where these are scaled too.
    """
    sizes = b.sizes
    return read_rope(
        b.keys,
        b.tensors,
        pairing,
        head_length=sizes.key_length,
        context_length=sizes.context_length,
        used_context=b.used_context,
        base=base,
        beta_fast=beta_fast,
        window=window,
    )


def window_rope(b: ProgramBuilder, pairing: RopePairing, base: float) -> Rope:
    """Read the rotary positions, never scaled, of the layers with a window; `base` is the default."""
    keys, length = b.keys, b.sizes.key_length
    turning = read_dimensions(keys, length, "rope.dimension_count_swa", read_dimensions(keys, length))
    return plain_rope(pairing, turning, read_base(keys, "rope.freq_base_swa", base))


def some_windowed(
    b: ProgramBuilder,
    windowed: LayerPositions,
    whole: LayerPositions,
    *,
    period: int | None,
    whole_first: bool = False,
) -> tuple[LayerPositions, ...]:
    """Give every layer its positions, as `window_flags` says."""
    return tuple(windowed if flag else whole for flag in window_flags(b, period, whole_first=whole_first))


def unscaled_windows(b: ProgramBuilder, *, base: float, period: int) -> tuple[LayerPositions, ...]:
    """Read the positions; layers with a window turn as fast as the others, but never slowed by a scaling.

    `base` and `period` are the defaults; without a window all layers are alike.
    """
    rope = model_rope(b, RopePairing.HALVES, base=base)
    window = b.keys.count("attention.sliding_window", 0)
    if not window:
        return (LayerPositions(rope),) * b.sizes.block_count
    unscaled = plain_rope(RopePairing.HALVES, rope.dimensions, read_base(b.keys, "rope.freq_base", base))
    return some_windowed(b, LayerPositions(unscaled, window), LayerPositions(rope), period=period)


def window_flags(b: ProgramBuilder, period: int | None, *, whole_first: bool = False) -> Sequence[bool]:
    """Tell for each layer whether it sees only the window: a period, or a bool for each layer.

    Of `period` layers, which is a default, the last sees everything, or the first; without a default, the
    file has to say.
    """
    key, layers = "attention.sliding_window_pattern", b.sizes.block_count
    if not b.keys.is_array(key):
        period = b.keys.count(key, period)
        return [(layer + 1 - whole_first) % period != 0 for layer in range(layers)]
    return b.keys.layer_flags(key, layers, b.sizes.predicting_blocks)
