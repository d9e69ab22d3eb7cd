"""granitehybrid: Granite 4, most of whose layers are state spaces, with or without experts."""

from rase_models.architectures.attention import attend
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.granite import build_scaled
from rase_models.architectures.mamba2 import scan_states
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build granitehybrid."""
    return build_scaled(b, mix=_mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a state space."""
    part = attend if b.sizes.head_counts_kv[layer] else scan_states
    return part(b, differences, layer, x)
