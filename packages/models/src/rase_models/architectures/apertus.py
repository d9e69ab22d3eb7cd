"""apertus: Apertus, with norms of queries and keys, whose networks bend values by numbers of the layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rase_models.architectures.attention import attend
from rase_models.architectures.block import build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences
from rase_models.architectures.feed_forward import feed_down
from rase_models.architectures.positions import same_positions
from rase_models.program import Program, RopePairing, Xielu


@dataclass(frozen=True, slots=True)
class _Bends:
    """The parameters of xIELU for each layer, by their names in a file.

    Its eps, which is next to nothing, keeps gradients from being undefined and does not count.
    """

    alpha_p: Sequence[float]
    alpha_n: Sequence[float]
    beta: Sequence[float]


def build(b: ProgramBuilder) -> Program:
    """Build apertus."""
    names, layers = ("alpha_p", "alpha_n", "beta"), b.sizes.block_count
    bends = _Bends(*(b.keys.common_numbers(f"xielu.{name}", layers) for name in names))

    def network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
        width = b.sizes.feed_forward_lengths[layer]
        up = b.linear("up", x, f"blk.{layer}.ffn_up", width)
        b.emit(_bend(up, bends, layer))
        return feed_down(b, differences, layer, up)

    positions = same_positions(b, RopePairing.HALVES)
    differences = Differences(positions, required=("attn_q_norm", "attn_k_norm"))
    return build_decoder(b, differences, attend, network)


def _bend(up: str, bends: _Bends, layer: int) -> Xielu:
    beta = bends.beta[layer]
    above, below = _softplus(bends.alpha_p[layer]), beta + _softplus(bends.alpha_n[layer])
    return Xielu(up, up, above, below, beta)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
