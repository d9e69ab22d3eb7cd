"""gemma4: Gemma 4, most of whose layers see a window, with heads of another length than the others.

The last layers may attend to keys and values of earlier ones; every token may have an embedding for each
layer; layers may choose among experts beside their network.
"""

import math

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Differences, LayerPositions
from rase_models.architectures.experts import choose_experts
from rase_models.architectures.feed_forward import feed_forward
from rase_models.architectures.layer_embeddings import embed_layers, layer_embedding
from rase_models.architectures.positions import model_rope, window_flags
from rase_models.architectures.rope import DIVISORS, plain_rope, read_base, read_dimensions
from rase_models.architectures.shared_keys import LayerKind, attend_sharing
from rase_models.program import (
    Activation,
    Add,
    Program,
    RmsNorm,
    RopePairing,
)

_PERIOD = 6


def build(b: ProgramBuilder) -> Program:
    """Build gemma4."""
    sizes = b.sizes
    kinds = _kinds(b)
    differences = Differences(
        tuple(kind.positions for kind in kinds), activation=Activation.GELU_TANH, feed_forward_scaled=True
    )
    rows = b.embed("rows", math.sqrt(sizes.embedding_length))
    embeddings = embed_layers(b, rows)
    caches: dict[LayerKind, int] = {}
    own = sizes.block_count - b.keys.count("attention.shared_kv_layers", 0, most=sizes.block_count - 1)
    for layer, kind in enumerate(kinds):
        values = attend_sharing(
            b, layer, kind, b.norm("normed", rows, f"blk.{layer}.attn_norm"), caches, layer < own
        )
        if layer == sizes.block_count - 1:
            rows, values = b.select_outputs(rows), b.select_outputs(values)
            embeddings = embeddings and b.select_outputs(embeddings)
        _finish_layer(b, differences, layer, rows, values, embeddings)
    normed = b.norm("normed", rows, "output_norm")
    b.output(normed, soft_cap=b.keys.number("final_logit_softcapping", 0.0))
    return b.program()


def _kinds(b: ProgramBuilder) -> list[LayerKind]:
    """Read the positions and the length of the heads of every layer."""
    sizes, key = b.sizes, "attention.key_length_swa"
    length = b.keys.count(key, sizes.key_length, most=1 << 16)
    if b.keys.count("attention.value_length_swa", length) != length or sizes.key_length != sizes.value_length:
        raise b.keys.error(key, "keys as long as values", length)
    turning = read_dimensions(b.keys, length, "rope.dimension_count_swa")
    local = plain_rope(RopePairing.HALVES, turning, read_base(b.keys, "rope.freq_base_swa", 10_000.0))
    whole = model_rope(b, RopePairing.HALVES, base=1_000_000.0)
    flags = window_flags(b, _PERIOD)
    if not all(flags):
        b.tensors.vector(DIVISORS, whole.dimensions // 2)
    windowed = LayerKind(LayerPositions(local, b.keys.count("attention.sliding_window")), length)
    others = LayerKind(LayerPositions(whole), sizes.key_length)
    return [windowed if flag else others for flag in flags]


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
