"""nemotron_h: Nemotron H and Nemotron 3; a layer is a state space, attention, a network or experts."""

from rase_models.architectures.attention import attend
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, LayerPositions, Mixed
from rase_models.architectures.experts import read_experts
from rase_models.architectures.feed_forward import feed_forward
from rase_models.architectures.mamba2 import scan_states
from rase_models.architectures.ungated_experts import ungated_experts
from rase_models.program import Activation, Add, Program, Scoring


def build(b: ProgramBuilder) -> Program:
    """Build nemotron_h, with experts or without."""
    rows = b.embed("rows")
    differences = Differences(
        (LayerPositions(None),) * b.sizes.block_count,
        feed_forward=FeedForward.PLAIN,
        feed_forward_scaled=True,
        activation=Activation.RELU_SQUARED,
    )
    for layer in range(b.sizes.block_count):
        rows = _block(b, differences, layer, rows)
    b.output(b.norm("normed", rows, "output_norm"))
    return b.program()


def _block(b: ProgramBuilder, differences: Differences, layer: int, rows: str) -> str:
    """Emit the one part of a layer; return the rows, in the last layer those whose logits are wanted."""
    is_last, normed = layer == b.sizes.block_count - 1, b.norm("normed", rows, f"blk.{layer}.attn_norm")
    if b.sizes.feed_forward_lengths[layer]:
        if is_last:
            rows, normed = b.select_outputs(rows), b.select_outputs(normed)
        update = _network(b, differences, layer, normed)
    else:
        mixed = _mix(b, differences, layer, normed)
        values = mixed.buffer
        if is_last:
            rows, values = b.select_outputs(rows), b.select_outputs(values)
        update = b.linear("update", values, mixed.output, b.sizes.embedding_length)
    b.emit(Add(rows, rows, update))
    return rows


def _mix(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    part = attend if b.sizes.head_counts_kv[layer] else scan_states
    return part(b, differences, layer, x)


def _network(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    if f"blk.{layer}.ffn_gate_inp.weight" in b.tensors:
        return ungated_experts(b, read_experts(b, Scoring.SIGMOID), layer, x)
    return feed_forward(b, differences, layer, x)
