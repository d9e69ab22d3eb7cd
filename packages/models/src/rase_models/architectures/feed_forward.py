"""The feed-forward network of one layer."""

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward
from rase_models.architectures.experts import experts, has_experts
from rase_models.program import Activate, GatedActivation


def feed_forward(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    """Emit the network, of experts where the layer has them."""
    if has_experts(b, layer):
        return experts(b, differences, layer, x)
    return feed_down(b, differences, layer, feed_up(b, differences, layer, x))


def feed_down(b: ProgramBuilder, differences: Differences, layer: int, x: str, out: str = "update") -> str:
    """Emit the last matrix of a dense network."""
    scaled = differences.feed_forward_scaled
    return b.linear(
        out,
        x,
        f"blk.{layer}.ffn_down",
        b.sizes.embedding_length,
        scaled=scaled,
        scaled_bias=scaled,
        factor=differences.residual_scale,
    )


def feed_up(b: ProgramBuilder, differences: Differences, layer: int, x: str, width: int | None = None) -> str:
    """Emit everything of a dense network before the last matrix; its width is the file's unless given."""
    scaled, prefix = differences.feed_forward_scaled, f"blk.{layer}.ffn_"
    width = width or b.keys.require("feed_forward_length", b.sizes.feed_forward_lengths[layer])
    if differences.feed_forward is FeedForward.PLAIN:
        up = b.linear("up", x, f"{prefix}up", width, scaled=scaled, scaled_bias=scaled)
        b.emit(Activate(up, up, differences.activation))
        return up
    if differences.feed_forward is FeedForward.MERGED:
        gate, up = b.split_linear((("gate", width), ("up", width)), x, f"{prefix}up", scaled=scaled)
    else:
        gate = b.linear("gate", x, f"{prefix}gate", width, scaled=scaled, scaled_bias=scaled)
        up = b.linear("up", x, f"{prefix}up", width, scaled=scaled, scaled_bias=scaled)
    b.emit(GatedActivation(gate, gate, up, differences.activation))
    return gate
