"""gemma3n: Gemma 3n, whose layers work on one of several streams of rows and predict the others.

The first layers keep only the largest values of their networks, the last ones attend to keys and values of
earlier ones, and every token has an embedding for each layer.
"""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import LayerPositions
from rase_models.architectures.layer_embeddings import embed_layers, layer_embedding
from rase_models.architectures.positions import model_rope, window_flags, window_rope
from rase_models.architectures.shared_keys import LayerKind, attend_sharing
from rase_models.architectures.streams import (
    Streams,
    active_stream,
    add_to_others,
    correct_streams,
    merge_streams,
    predict_streams,
    read_streams,
    split_streams,
)
from rase_models.program import Activation, Add, GatedActivation, Program, RopePairing, Scale, Sparsify

_PERIOD = 5
_LAYERS_WITH_KEYS = 20
_SPARSE_LAYERS, _DEVIATIONS = 10, 1.6448533535003662  # 5 % of a normal distribution are above
_LOGIT_CAP = 30.0


def build(b: ProgramBuilder) -> Program:
    """Build gemma3n."""
    sizes, streams = b.sizes, read_streams(b)
    rows = b.embed("rows", math.sqrt(sizes.embedding_length))
    embeddings = embed_layers(b, rows)
    if embeddings is None:
        raise b.keys.error("embedding_length_per_layer_input", "the length of an embedding", "no such key")
    everything = split_streams(b, streams, rows)
    kinds, caches, sparsity = _kinds(b), dict[LayerKind, int](), _sparsity(b)
    shared = b.keys.count("attention.shared_kv_layers", max(sizes.block_count - _LAYERS_WITH_KEYS, 0))
    for layer, kind in enumerate(kinds):
        predictions = predict_streams(b, streams, layer, everything)
        active = active_stream(b, streams, "active", predictions)
        normed = b.norm("normed", active, f"blk.{layer}.attn_norm")
        values = attend_sharing(b, layer, kind, normed, caches, layer < sizes.block_count - shared)
        if layer == sizes.block_count - 1:  # nothing after this looks at other rows
            predictions, active, normed, values, embeddings = map(
                b.select_outputs, (predictions, active, normed, values, embeddings)
            )
        found = _finish_layer(b, layer, active, normed, values, sparsity[layer])
        everything = correct_streams(b, streams, layer, predictions, found)
        _add_embedding(b, streams, layer, everything, embeddings)
    b.output(
        b.norm("normed", merge_streams(b, streams, everything), "output_norm"),
        soft_cap=b.keys.number("final_logit_softcapping", _LOGIT_CAP),
    )
    return b.program()


def _kinds(b: ProgramBuilder) -> list[LayerKind]:
    """Read the positions of every layer."""
    length = b.sizes.key_length
    if b.sizes.value_length != length:
        raise b.keys.error("attention.value_length", f"{length}, the length of keys", b.sizes.value_length)
    window = b.keys.count("attention.sliding_window")
    local = LayerPositions(window_rope(b, RopePairing.HALVES, 10_000.0), window)
    whole = LayerPositions(model_rope(b, RopePairing.HALVES, base=1_000_000.0))
    return [LayerKind(local if flag else whole, length) for flag in window_flags(b, _PERIOD)]


def _sparsity(b: ProgramBuilder) -> list[float | None]:
    """Read how many standard deviations above the mean the values of each layer must be; None for any."""
    layers, key = b.sizes.block_count, "activation_sparsity_scale"
    if not b.keys.is_array(key):
        return [_DEVIATIONS if layer < _SPARSE_LAYERS else None for layer in range(layers)]
    deviations = b.keys.numbers(key, layers)
    for value in deviations:
        if math.isnan(value) or value == math.inf:
            raise b.keys.error(key, "numbers, and minus infinity for layers that keep all values", value)
    return [value if math.isfinite(value) else None for value in deviations]


def _finish_layer(
    b: ProgramBuilder, layer: int, active: str, normed: str, values: str, deviations: float | None
) -> str:
    """Emit what follows attention: a short way beside it, and the network."""
    prefix, width = f"blk.{layer}.", b.sizes.embedding_length
    update = b.linear("update", values, f"{prefix}attn_output", width)
    b.norm(update, update, f"{prefix}post_attention_norm")
    b.emit(Add(active, active, update))
    b.emit(Add(active, active, _laurel(b, prefix, normed), 1 / math.sqrt(2)))
    update = _network(b, layer, b.norm("normed", active, f"{prefix}ffn_norm"), deviations)
    b.norm(update, update, f"{prefix}post_ffw_norm")
    b.emit(Add(active, active, update))
    return active


def _laurel(b: ProgramBuilder, prefix: str, x: str) -> str:
    """Emit x and a product of it of low rank (LAuReL, https://arxiv.org/abs/2411.07501)."""
    rank = b.tensors.rows_of(f"{prefix}laurel_l.weight")
    low = b.linear("laurel_low", x, f"{prefix}laurel_l", rank)
    out = b.linear("laurel", low, f"{prefix}laurel_r", b.width(x))
    b.norm(out, out, f"{prefix}laurel_post_norm")
    b.emit(Add(out, out, x))
    return out


def _network(b: ProgramBuilder, layer: int, x: str, deviations: float | None) -> str:
    prefix = f"blk.{layer}.ffn_"
    width = b.keys.require("feed_forward_length", b.sizes.feed_forward_lengths[layer])
    gate = b.linear("gate", x, f"{prefix}gate", width)
    up = b.linear("up", x, f"{prefix}up", width)
    if deviations is not None:
        b.emit(Sparsify(gate, gate, deviations))
    b.emit(GatedActivation(gate, gate, up, Activation.GELU_TANH))
    return b.linear("update", gate, f"{prefix}down", b.width(x))


def _add_embedding(b: ProgramBuilder, streams: Streams, layer: int, everything: str, embeddings: str) -> None:
    """Emit the layer's embedding, gated by the active stream, onto the other streams."""
    active = active_stream(b, streams, "active", everything)
    weight = b.tensors.vector(f"blk.{layer}.altup_correct_scale.weight", b.width(active))
    b.emit(Scale(active, active, weight))
    add_to_others(b, streams, everything, layer_embedding(b, layer, active, embeddings))
