"""granite_swa: Granite with sinks, most of whose layers see a window, and some of which know no positions."""

from dataclasses import replace

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import LayerPositions
from rase_models.architectures.granite import build_scaled
from rase_models.architectures.positions import model_rope, some_windowed
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build granite_swa."""
    rope = model_rope(b, RopePairing.ADJACENT)
    windowed = LayerPositions(rope, b.keys.count("attention.sliding_window"))
    layers = some_windowed(b, windowed, LayerPositions(rope), period=None)
    turns = _turns(b)
    positions = [at if turned else replace(at, rope=None) for at, turned in zip(layers, turns, strict=True)]
    return build_scaled(
        b, positions=positions, logit_divisor=b.keys.number("logit_scale"), required=("attn_sinks",)
    )


def _turns(b: ProgramBuilder) -> tuple[bool, ...]:
    """Tell for each layer whether heads turn: all do unless the file says otherwise."""
    key, layers = "attention.rope_pattern", b.sizes.block_count
    if not b.keys.is_array(key):
        return (True,) * layers
    return b.keys.layer_flags(key, layers, b.sizes.predicting_blocks)
