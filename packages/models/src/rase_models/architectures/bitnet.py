"""bitnet: BitNet b1.58, with norms before the last matrices of attention and of feed-forward networks."""

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.feed_forward import feed_down, feed_up
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build bitnet."""
    differences = Differences(same_positions(b, RopePairing.HALVES), feed_forward_scaled=True)
    return build_decoder(b, differences, _mix, _network)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    mixed = attend(b, differences, layer, x)
    b.norm(mixed.buffer, mixed.buffer, f"blk.{layer}.attn_sub_norm")
    return mixed


def _network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    hidden = feed_up(b, differences, layer, x)
    return feed_down(b, differences, layer, b.norm(hidden, hidden, f"blk.{layer}.ffn_sub_norm"))
