"""Embeddings that every token has for each layer, besides the one that rows begin with."""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.program import Activation, Add, Embed, GatedActivation


def embed_layers(b: ProgramBuilder, rows: str) -> str | None:
    """Emit the embeddings of all layers, to which a projection of the rows is added; None without any."""
    length = b.keys.count("embedding_length_per_layer_input", 0)
    if not length:
        return None
    layers = b.sizes.block_count
    width = layers * length
    weight = b.tensors.matrix("per_layer_token_embd.weight", b.vocab_size, width)
    embeddings = b.buffer("layer_embeddings", width)
    b.emit(Embed(embeddings, weight, math.sqrt(length)))
    factor = 1 / math.sqrt(b.width(rows))
    projected = b.linear("layer_projections", rows, "per_layer_model_proj", width, factor=factor)
    b.norm(projected, projected, "per_layer_proj_norm", layers)
    b.emit(Add(embeddings, embeddings, projected, 1 / math.sqrt(2)))
    return embeddings


def layer_embedding(b: ProgramBuilder, layer: int, x: str, embeddings: str) -> str:
    """Emit what a layer makes of its embedding, gated by x."""
    length, prefix = b.width(embeddings) // b.sizes.block_count, f"blk.{layer}."
    gate = b.linear("layer_gate", x, f"{prefix}inp_gate", length)
    own = b.copy_parts("layer_embedding", embeddings, 1, length, length, first=layer * length)
    b.emit(GatedActivation(gate, gate, own, Activation.GELU_TANH))
    update = b.linear("update", gate, f"{prefix}proj", b.sizes.embedding_length)
    return b.norm(update, update, f"{prefix}post_norm")
