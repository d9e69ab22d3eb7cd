"""Attention of one layer, up to what its heads make of the values."""

import math

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, HeadNorms, Mixed
from rase_models.program import Attention, Clamp, KvLayer, Rotate


def attend(b: ProgramBuilder, differences: Differences, layer: int, x: str) -> Mixed:
    """Emit queries, keys, values and the attention between them."""
    sizes, positions = b.sizes, differences.positions[layer]
    heads = b.keys.require("attention.head_count", sizes.head_counts[layer])
    heads_kv = b.keys.require("attention.head_count_kv", sizes.head_counts_kv[layer])
    q, k, v = _project(b, layer, x)
    _clamp(b, q, k, v)
    _prepare(b, differences, layer, "q", q, heads)
    _prepare(b, differences, layer, "k", k, heads_kv)
    cache = b.kv_layer(KvLayer(heads_kv, sizes.key_length, sizes.value_length, positions.window))
    out = b.buffer("attended", heads * sizes.value_length)
    op = Attention(
        out,
        q,
        k,
        v,
        cache,
        heads,
        heads_kv,
        sizes.key_length,
        sizes.value_length,
        scale=sizes.attention_scale or differences.attention_scale or 1 / math.sqrt(sizes.key_length),
        window=positions.window,
        chunked=positions.chunked,
        soft_cap=differences.attention_cap or None,
        sinks=_sinks(b, differences, layer, heads),
        slopes=_slopes(heads, differences.alibi) if differences.alibi else (),
    )
    b.emit(op)
    return Mixed(out, f"blk.{layer}.attn_output")


def _clamp(b: ProgramBuilder, *buffers: str) -> None:
    """Clamp what heads are made of, where the file says so."""
    limit = b.keys.number("attention.clamp_kqv", 0.0)
    for buffer in buffers if limit else ():
        b.emit(Clamp(buffer, buffer, limit))


def _sinks(b: ProgramBuilder, differences: Differences, layer: int, heads: int) -> str | None:
    name = f"blk.{layer}.attn_sinks.weight"
    if "attn_sinks" in differences.required:
        return b.tensors.vector(name, heads)
    return b.tensors.optional_vector(name, heads) if differences.sinks else None


def _slopes(heads: int, steepness: float) -> tuple[float, ...]:
    """Return the slopes of ALiBi: a geometric series for the first 2^n heads, others lie between these."""
    power = 1 << (heads.bit_length() - 1)
    first = [2 ** (-steepness * (head + 1) / power) for head in range(power)]
    others = [2 ** (-steepness * (head + 0.5) / power) for head in range(heads - power)]
    return (*first, *others)


def _project(b: ProgramBuilder, layer: int, x: str) -> tuple[str, ...]:
    """Emit queries, keys and values, from one matrix or three."""
    sizes, prefix = b.sizes, f"blk.{layer}.attn_"
    heads_kv = sizes.head_counts_kv[layer]
    widths = (
        ("q", sizes.head_counts[layer] * sizes.key_length),
        ("k", heads_kv * sizes.key_length),
        ("v", heads_kv * sizes.value_length),
    )
    if f"{prefix}qkv.weight" in b.tensors:
        return b.split_linear(widths, x, f"{prefix}qkv")
    return tuple(b.linear(kind, x, f"{prefix}{kind}", width) for kind, width in widths)


def _prepare(b: ProgramBuilder, differences: Differences, layer: int, kind: str, x: str, heads: int) -> None:
    """Normalise the heads of queries or keys if the file says so, and turn them."""
    positions, norms = differences.positions[layer], differences.head_norms
    rope = positions.query_rope or positions.rope if kind == "q" else positions.rope
    name = f"attn_{kind}_norm"
    normed = name in differences.required or f"blk.{layer}.{name}.weight" in b.tensors
    turned_first = norms in (HeadNorms.AFTER_ROPE, HeadNorms.TURNED)
    if rope is not None and turned_first:
        b.emit(Rotate(x, heads, rope))
    if positions.rope is not None and norms is HeadNorms.TURNED:
        b.norm(x, x, None, heads)
    if normed:
        parts = 1 if norms is HeadNorms.TOGETHER else heads
        shared = norms is not HeadNorms.OWN
        b.norm(x, x, f"blk.{layer}.{name}", parts, kind=differences.norm, shared=shared)
    if rope is not None and not turned_first:
        b.emit(Rotate(x, heads, rope))
