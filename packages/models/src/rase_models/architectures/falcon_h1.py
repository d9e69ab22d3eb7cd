"""falcon-h1: Falcon H1, in whose layers attention and a state space work side by side."""

from dataclasses import replace

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.mamba2 import scan, scan_states
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build falcon-h1."""
    return build_decoder(b, Differences(same_positions(b, RopePairing.HALVES)), _mix)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    normed = f"blk.{layer}.ssm_norm.weight" in b.tensors
    states = scan_states(b, differences, layer, x) if normed else scan(b, layer, x)
    return replace(attend(b, differences, layer, x), second=states)
