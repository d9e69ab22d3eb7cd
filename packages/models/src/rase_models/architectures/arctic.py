"""arctic: Arctic, whose experts work on what a layer begins with, beside a dense network."""

from dataclasses import replace

from rase_models.architectures.attention import attend
from rase_models.architectures.block import ROWS, build_decoder
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.experts import choose_experts
from rase_models.architectures.feed_forward import feed_down, feed_up
from rase_models.architectures.positions import same_positions
from rase_models.program import Add, Program, RopePairing


def build(b: ProgramBuilder) -> Program:
    """Build arctic."""
    return build_decoder(b, Differences(same_positions(b, RopePairing.ADJACENT)), _mix, _network)


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    began = b.norm("began", ROWS, f"blk.{layer}.ffn_norm_exps")
    return replace(attend(b, differences, layer, x), kept=began)


def _network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the experts and the dense network, which is as wide as rows are."""
    update = choose_experts(b, differences, layer, b.selected("began"))
    hidden = feed_up(b, differences, layer, x, b.sizes.embedding_length)
    b.emit(Add(update, update, feed_down(b, differences, layer, hidden, "dense")))
    return update
