"""The decoder that most architectures are: in each layer attention, then a gated feed-forward network.

Both are added to the rows. An architecture's file says how it differs. Norms of queries and keys, norms after
a part, biases and experts count where the file has their tensors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.experts import experts, has_experts
from rase_models.architectures.rope import read_rope
from rase_models.program import (
    Activation,
    Add,
    Attention,
    GatedActivation,
    KvLayer,
    Program,
    Rope,
    RopePairing,
    Rotate,
)


@dataclass(frozen=True, slots=True)
class LayerPositions:
    """How the attention of one layer treats positions."""

    rope: Rope
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """How an architecture differs from llama.

    Attributes:
        positions: for each layer.
        required: tensors of every layer that others leave out, without `blk.N.` and `.weight`.
        feed_forward_scaled: whether the scalars of the feed-forward matrices count.
    """

    positions: Sequence[LayerPositions]
    activation: Activation = Activation.SILU
    embedding_scale: float = 1.0
    attention_scale: float | None = None
    required: tuple[str, ...] = ()
    feed_forward_scaled: bool = True


def build_decoder(b: ProgramBuilder, differences: Differences) -> Program:
    """Emit the whole decoder."""
    rows = b.embed("rows", differences.embedding_scale)
    for layer in range(b.sizes.block_count):
        rows = _attention(b, differences, layer, rows)
        rows = _feed_forward(b, differences, layer, rows)
    b.output(b.norm("normed", rows, "output_norm.weight"))
    return b.program()


def _attention(b: ProgramBuilder, differences: Differences, layer: int, rows: str) -> str:
    prefix = f"blk.{layer}."
    normed = b.norm("normed", rows, f"{prefix}attn_norm.weight")
    attended = _attend(b, differences, layer, normed)
    if layer == b.sizes.block_count - 1:  # nothing after this looks at other rows
        attended, rows = b.select_outputs(attended), b.select_outputs(rows)
    update = b.linear("update", attended, f"{prefix}attn_output", b.sizes.embedding_length)
    return _add(b, differences, rows, update, f"{prefix}post_attention_norm")


def _attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    sizes, positions = b.sizes, differences.positions[layer]
    heads, heads_kv = sizes.head_counts[layer], sizes.head_counts_kv[layer]
    q = _heads(b, differences, layer, "q", x, heads, sizes.key_length)
    k = _heads(b, differences, layer, "k", x, heads_kv, sizes.key_length)
    v = b.linear("v", x, f"blk.{layer}.attn_v", heads_kv * sizes.value_length)
    cache = b.kv_layer(KvLayer(heads_kv, sizes.key_length, sizes.value_length, positions.window))
    scale = sizes.attention_scale or differences.attention_scale or 1 / math.sqrt(sizes.key_length)
    out = b.buffer("attended", heads * sizes.value_length)
    lengths = (heads, heads_kv, sizes.key_length, sizes.value_length)
    b.emit(Attention(out, q, k, v, cache, *lengths, scale, positions.window))
    return out


def _heads(
    b: ProgramBuilder, differences: Differences, layer: int, kind: str, x: str, heads: int, length: int
) -> str:
    """Emit the queries or keys: projected, normalised if the file says so, turned."""
    out = b.linear(kind, x, f"blk.{layer}.attn_{kind}", heads * length)
    _optional_norm(b, differences, out, f"blk.{layer}.attn_{kind}_norm", heads)
    b.emit(Rotate(out, heads, differences.positions[layer].rope))
    return out


def _feed_forward(b: ProgramBuilder, differences: Differences, layer: int, rows: str) -> str:
    prefix = f"blk.{layer}."
    x = b.norm("normed", rows, f"{prefix}ffn_norm.weight")
    if has_experts(b, layer):
        update = experts(b, layer, x, differences.activation)
    else:
        update = _dense(b, differences, layer, x)
    return _add(b, differences, rows, update, f"{prefix}post_ffw_norm")


def _dense(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> str:
    prefix, width = f"blk.{layer}.", b.sizes.feed_forward_lengths[layer]
    scaled = differences.feed_forward_scaled
    gate = b.linear("gate", x, f"{prefix}ffn_gate", width, scaled=scaled, scaled_bias=scaled)
    up = b.linear("up", x, f"{prefix}ffn_up", width, scaled=scaled, scaled_bias=scaled)
    b.emit(GatedActivation(gate, gate, up, differences.activation))
    down = f"{prefix}ffn_down"
    return b.linear("update", gate, down, b.sizes.embedding_length, scaled=scaled, scaled_bias=scaled)


def _add(b: ProgramBuilder, differences: Differences, rows: str, update: str, norm: str) -> str:
    _optional_norm(b, differences, update, norm)
    b.emit(Add(rows, rows, update))
    return rows


def _optional_norm(b: ProgramBuilder, differences: Differences, x: str, name: str, heads: int = 1) -> None:
    required = name.split(".")[-1] in differences.required
    if required or f"{name}.weight" in b.tensors:
        b.norm(x, x, f"{name}.weight", heads)


def same_positions(
    b: ProgramBuilder, pairing: RopePairing, *, base: float = 10000.0, window: int | None = None
) -> tuple[LayerPositions, ...]:
    """Read the rotary positions of a model whose layers are all alike; `base` is the default."""
    sizes = b.sizes
    rope = read_rope(
        b.keys,
        b.tensors,
        pairing,
        head_length=sizes.key_length,
        context_length=sizes.context_length,
        base=base,
    )
    return (LayerPositions(rope, window),) * sizes.block_count
