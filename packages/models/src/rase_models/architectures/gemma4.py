"""gemma4: Gemma 4, most of whose layers see a window, with heads of another length than the others.

The last layers may attend to keys and values of earlier ones; every token may have an embedding for each
layer; layers may choose among experts beside their network.
"""

import math
from dataclasses import dataclass

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.experts import choose_experts
from rase_models.architectures.feed_forward import feed_forward
from rase_models.architectures.layer_embeddings import embed_layers, layer_embedding
from rase_models.architectures.positions import window_flags
from rase_models.architectures.rope import DIVISORS, plain_rope, read_base, read_rope
from rase_models.program import (
    Activation,
    Add,
    Attention,
    KvLayer,
    Program,
    RmsNorm,
    RopePairing,
    Rotate,
)

_PERIOD = 6


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the layers with a window have in common, or those without."""

    positions: LayerPositions
    length: int


def build(b: ProgramBuilder) -> Program:
    """Build gemma4."""
    sizes = b.sizes
    kinds = _kinds(b)
    differences = Differences(
        tuple(kind.positions for kind in kinds), activation=Activation.GELU_TANH, feed_forward_scaled=True
    )
    rows = b.embed("rows", math.sqrt(sizes.embedding_length))
    embeddings = embed_layers(b, rows)
    caches: dict[_Kind, int] = {}
    own = sizes.block_count - b.keys.count("attention.shared_kv_layers", 0, most=sizes.block_count - 1)
    for layer, kind in enumerate(kinds):
        values = _attend(
            b, layer, kind, b.norm("normed", rows, f"blk.{layer}.attn_norm"), caches, layer < own
        )
        if layer == sizes.block_count - 1:
            rows, values = b.select_outputs(rows), b.select_outputs(values)
            embeddings = embeddings and b.select_outputs(embeddings)
        _finish_layer(b, differences, layer, rows, values, embeddings)
    normed = b.norm("normed", rows, "output_norm")
    b.output(normed, soft_cap=b.keys.number("final_logit_softcapping", 0.0))
    return b.program()


def _kinds(b: ProgramBuilder) -> list[_Kind]:
    """Read the positions and the length of the heads of every layer."""
    sizes, key = b.sizes, "attention.key_length_swa"
    length = b.keys.count(key, sizes.key_length, most=1 << 16)
    if b.keys.count("attention.value_length_swa", length) != length or sizes.key_length != sizes.value_length:
        raise b.keys.error(key, "keys as long as values", length)
    turning = b.keys.count("rope.dimension_count_swa", length, most=length)
    local = plain_rope(RopePairing.HALVES, turning, read_base(b.keys, "rope.freq_base_swa", 10_000.0))
    whole = read_rope(
        b.keys,
        b.tensors,
        RopePairing.HALVES,
        head_length=sizes.key_length,
        context_length=sizes.context_length,
        used_context=b.used_context,
        base=1_000_000.0,
    )
    flags = window_flags(b, _PERIOD)
    if not all(flags):
        b.tensors.vector(DIVISORS, whole.dimensions // 2)
    windowed = _Kind(LayerPositions(local, b.keys.count("attention.sliding_window")), length)
    others = _Kind(LayerPositions(whole), sizes.key_length)
    return [windowed if flag else others for flag in flags]


def _attend(
    b: ProgramBuilder, layer: int, kind: _Kind, x: str, caches: dict[_Kind, int], has_keys: bool
) -> str:
    """Emit attention; layers without keys use those of the last layer of their kind that has some."""
    sizes, prefix, length = b.sizes, f"blk.{layer}.attn_", kind.length
    heads = b.keys.require("attention.head_count", sizes.head_counts[layer])
    heads_kv = b.keys.require("attention.head_count_kv", sizes.head_counts_kv[layer])
    k, v = None, None
    if has_keys and f"{prefix}qkv.weight" in b.tensors:
        widths = (("q", heads * length), ("k", heads_kv * length), ("v", heads_kv * length))
        q, k, v = b.split_linear(widths, x, f"{prefix}qkv")
    else:
        q = b.linear("q", x, f"{prefix}q", heads * length)
        if has_keys:
            k, v = _keys_and_values(b, prefix, x, heads_kv * length)
    if k is not None and v is not None:
        b.norm(v, v, None, heads_kv)
        caches[kind] = b.kv_layer(KvLayer(heads_kv, length, length, kind.positions.window))
        _prepare(b, kind, k, f"{prefix}k_norm", heads_kv)
    elif kind not in caches:
        raise b.keys.error("attention.shared_kv_layers", "fewer", f"no keys for layer {layer} to share")
    _prepare(b, kind, q, f"{prefix}q_norm", heads)
    for name in () if has_keys else ("k", "v", "k_norm"):
        b.tensors.ignore(f"{prefix}{name}.weight")
    out, window = b.buffer("attended", heads * length), kind.positions.window
    op = Attention(out, q, k, v, caches[kind], heads, heads_kv, length, length, 1.0, window)
    b.emit(op)
    return out


def _keys_and_values(b: ProgramBuilder, prefix: str, x: str, width: int) -> tuple[str, str]:
    """Emit keys and values, from one matrix where there is none for values."""
    k = b.linear("k", x, f"{prefix}k", width)
    name = "v" if f"{prefix}v.weight" in b.tensors else "k"
    return k, b.linear("v", x, f"{prefix}{name}", width)


def _prepare(b: ProgramBuilder, kind: _Kind, x: str, norm: str, heads: int) -> None:
    b.norm(x, x, norm, heads)
    if kind.positions.rope is not None:
        b.emit(Rotate(x, heads, kind.positions.rope))


def _finish_layer(
    b: ProgramBuilder, differences: Differences, layer: int, rows: str, values: str, embeddings: str | None
) -> None:
    """Emit what follows attention; all of the layer's result is multiplied by a number in the end."""
    prefix = f"blk.{layer}."
    update = b.linear("update", values, f"{prefix}attn_output", b.sizes.embedding_length)
    b.norm(update, update, f"{prefix}post_attention_norm")
    b.emit(Add(rows, rows, update))
    update = _feed_forward(b, differences, layer, rows)
    b.norm(update, update, f"{prefix}post_ffw_norm")
    name = f"{prefix}layer_output_scale.weight"
    scale = b.tensors.values(name, 1)[0] if name in b.tensors else 1.0
    b.emit(Add(rows, rows, update, 1.0 if embeddings else scale))
    if embeddings:
        b.emit(Add(rows, rows, layer_embedding(b, layer, rows, embeddings), scale))


def _feed_forward(b: ProgramBuilder, differences: Differences, layer: int, rows: str) -> str:
    """Emit the network and, where the layer has a router, the experts, which are added after norms."""
    prefix = f"blk.{layer}."
    update = feed_forward(b, differences, layer, b.norm("normed", rows, f"{prefix}ffn_norm"))
    if f"{prefix}ffn_gate_inp.weight" not in b.tensors:
        return update
    dense = b.norm("dense", update, f"{prefix}post_ffw_norm_1")
    normed = b.norm("normed", rows, f"{prefix}pre_ffw_norm_2")
    chosen = choose_experts(b, differences, layer, normed, _router_input(b, layer, rows))
    b.norm(chosen, chosen, f"{prefix}post_ffw_norm_2")
    b.emit(Add(chosen, chosen, dense))
    return chosen


def _router_input(b: ProgramBuilder, layer: int, rows: str) -> str:
    width = b.width(rows)
    out, scales = b.buffer("router_input", width), b.tensors.vector(f"blk.{layer}.ffn_gate_inp.scale", width)
    b.emit(RmsNorm(out, rows, scales, b.keys.number(Norm.RMS.value)))
    b.emit(Add(out, out, out, 0.5 / math.sqrt(width)))
    return out
