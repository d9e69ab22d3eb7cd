"""jamba: Jamba, most of whose layers are state spaces, one a channel, with experts in some layers."""

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Experts, LayerPositions, Mixed
from rase_models.architectures.selective_states import scan_channels
from rase_models.program import Program


def build(b: ProgramBuilder) -> Program:
    """Build jamba, which knows positions by its states alone."""
    positions = (LayerPositions(None),) * b.sizes.block_count
    return build_decoder(b, Differences(positions, experts=Experts(normalise=False)), _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention where a layer has key heads, otherwise a state space."""
    part = attend if b.sizes.head_counts_kv[layer] else scan_channels
    return part(b, differences, layer, x)
