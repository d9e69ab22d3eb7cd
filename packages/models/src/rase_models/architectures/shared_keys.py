"""Attention whose last layers read the keys and values of earlier ones, of which values are normed."""

from dataclasses import dataclass

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import LayerPositions
from rase_models.program import Attention, KvLayer, Rotate


@dataclass(frozen=True, slots=True)
class LayerKind:
    """What the layers with a window have in common, or those without: positions, and the length of heads."""

    positions: LayerPositions
    length: int


def attend_sharing(
    b: ProgramBuilder, layer: int, kind: LayerKind, x: str, caches: dict[LayerKind, int], has_keys: bool
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


def _prepare(b: ProgramBuilder, kind: LayerKind, x: str, norm: str, heads: int) -> None:
    b.norm(x, x, norm, heads)
    if kind.positions.rope is not None:
        b.emit(Rotate(x, heads, kind.positions.rope))
