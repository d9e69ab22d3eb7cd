"""Attention whose results are gated by its input, value by value or head by head."""

from rase_models.architectures.attention import attend
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.program import Activation, GatedActivation


def attend_gated(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit attention whose results are multiplied by the logistic function of a matrix times its input."""
    return gate_attention(b, attend(b, differences, layer, x), layer, x, Activation.SIGMOID)


def gate_attention(b: ProgramBuilder, mixed: Mixed, layer: int, x: str, activation: Activation) -> Mixed:
    """Emit the gates of what attention has made of x: as many as values, or one for each head."""
    name, heads = f"blk.{layer}.attn_gate", b.sizes.head_counts[layer]
    per_head = b.tensors.rows_of(f"{name}.weight") == heads
    gate = b.linear("attention_gate", x, name, heads if per_head else b.width(mixed.buffer))
    b.emit(GatedActivation(mixed.buffer, gate, mixed.buffer, activation))
    return mixed
