"""deci: Nemotron Super and Ultra, llamas some of whose layers lack attention, or a network, or both.

In some layers one matrix stands for attention.
"""

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build deci."""
    differences = Differences(
        same_positions(b, RopePairing.ADJACENT),
        unmixed=_without(b.sizes.head_counts),
        unfed=_without(b.sizes.feed_forward_lengths),
    )
    return build_decoder(b, differences, _mix)


def _without(counts: tuple[int, ...]) -> frozenset[int]:
    return frozenset(layer for layer, count in enumerate(counts) if not count)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    if b.sizes.head_counts_kv[layer]:
        return attend(b, differences, layer, x)
    return Mixed(x, f"blk.{layer}.attn_output")
