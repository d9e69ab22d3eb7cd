"""Attention over one latent vector a position, from which every head makes its keys and values (MLA).

https://arxiv.org/abs/2405.04434. A head's scores against keys made from the latent are the scores of a query,
sent through the matrix of the keys, against the latent itself. So the cache holds the latent and one turned
part for all heads, as the keys of a single head, and the latent again as its values.
"""

from dataclasses import dataclass

from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, Mixed
from rase_models.architectures.rope import read_dimensions
from rase_models.program import Attention, HeadLinear, KvLayer, Rope, Rotate


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """The sizes of latent attention.

    Attributes:
        rank: the width of the latent.
        turned: how many elements of a head's key turn, where positions count; they are the last ones.
        key_length, value_length: of one head.
    """

    heads: int
    rank: int
    turned: int
    key_length: int
    value_length: int

    @property
    def plain(self) -> int:
        """How many elements of a head's key come from the latent."""
        return self.key_length - self.turned


def read_latent_sizes(b: ProgramBuilder, layer: int, rope: Rope | None) -> LatentSizes:
    """Read the sizes; in older files the lengths of heads stand where other architectures have them."""
    keys, sizes = b.keys, b.sizes
    key_length = keys.count("attention.key_length_mla", sizes.key_length)
    turned = read_dimensions(keys, key_length) if rope is None else rope.dimensions
    if key_length <= turned:
        raise keys.error("attention.key_length_mla", f"more than the {turned} that turn", key_length)
    return LatentSizes(
        heads=sizes.head_counts[layer],
        rank=keys.count("attention.kv_lora_rank"),
        turned=turned,
        key_length=key_length,
        value_length=keys.count("attention.value_length_mla", sizes.value_length),
    )


def attend_latently(
    b: ProgramBuilder, differences: Differences, layer: int, x: str, scale: float, growth: Rope | None = None
) -> Mixed:
    """Emit attention over latents, whichever way the file's matrices are cut.

    Queries may have a `growth`, a turn by nothing that multiplies all of them.
    """
    rope = differences.positions[layer].rope
    sizes, prefix = read_latent_sizes(b, layer, rope), f"blk.{layer}.attn_"
    q = _queries(b, sizes, prefix, x)
    if growth is not None:
        b.emit(Rotate(q, sizes.heads, growth))
    q_turned = b.copy_parts("q_turned", q, sizes.heads, sizes.turned, sizes.turned, first=sizes.plain)
    if rope is not None:
        b.emit(Rotate(q_turned, sizes.heads, rope))
    widths = (("latent", sizes.rank), ("k_turned", sizes.turned))
    latent, k_turned = b.split_linear(widths, x, f"{prefix}kv_a_mqa")
    b.norm(latent, latent, f"{prefix}kv_a_norm")
    if rope is not None:
        b.emit(Rotate(k_turned, 1, rope))
    attend = _absorbed if f"{prefix}k_b.weight" in b.tensors else _expanded
    return Mixed(attend(b, sizes, prefix, (q, q_turned, latent, k_turned), scale), f"{prefix}output")


def _queries(b: ProgramBuilder, sizes: LatentSizes, prefix: str, x: str) -> str:
    """Emit the queries, perhaps from latents of their own."""
    width = sizes.heads * sizes.key_length
    if f"{prefix}q.weight" in b.tensors:
        return b.linear("q", x, f"{prefix}q", width)
    compressed = b.linear("q_latent", x, f"{prefix}q_a", b.keys.count("attention.q_lora_rank"))
    return b.linear("q", b.norm(compressed, compressed, f"{prefix}q_a_norm"), f"{prefix}q_b", width)


def _absorbed(
    b: ProgramBuilder, sizes: LatentSizes, prefix: str, parts: tuple[str, str, str, str], scale: float
) -> str:
    """Attend to the latents themselves, with queries sent through the matrices of the keys."""
    q, q_turned, latent, k_turned = parts
    heads, rank, turned = sizes.heads, sizes.rank, sizes.turned
    plain = b.copy_parts("q_plain", q, heads, sizes.plain, sizes.plain)
    sent = _head_linear(b, "q_sent", plain, f"{prefix}k_b.weight", heads, sizes.plain, rank)
    length = rank + turned
    query = b.copy_parts("q_whole", sent, heads, length, rank)
    b.copy_parts("q_whole", q_turned, heads, length, turned, out_first=rank)
    key = b.copy_parts("k", latent, 1, length, rank)
    b.copy_parts("k", k_turned, 1, length, turned, out_first=rank)
    cache = b.kv_layer(KvLayer(1, length, rank))
    mixed = b.buffer("mixed", heads * rank)
    b.emit(Attention(mixed, query, key, latent, cache, heads, 1, length, rank, scale))
    return _head_linear(b, "attended", mixed, f"{prefix}v_b.weight", heads, rank, sizes.value_length)


def _head_linear(
    b: ProgramBuilder, out: str, x: str, weight: str, heads: int, width: int, out_width: int
) -> str:
    shape = (heads, out_width, width) if heads > 1 else (out_width, width)
    b.tensors.matrix(weight, *shape)
    out = b.buffer(out, heads * out_width)
    b.emit(HeadLinear(out, x, weight, heads))
    return out


def _expanded(
    b: ProgramBuilder, sizes: LatentSizes, prefix: str, parts: tuple[str, str, str, str], scale: float
) -> str:
    """Attend with keys and values made from the latents, as older files have the matrices."""
    q, q_turned, latent, k_turned = parts
    heads, plain, key, value = sizes.heads, sizes.plain, sizes.key_length, sizes.value_length
    kv = b.linear("kv", latent, f"{prefix}kv_b", heads * (plain + value))
    b.copy_parts(q, q_turned, heads, key, sizes.turned, out_first=plain)
    k = b.copy_parts("k", kv, heads, key, plain)
    b.copy_parts("k", k_turned, heads, key, sizes.turned, out_first=plain, shared=True)
    v = b.copy_parts("v", kv, heads, value, value, first=plain)
    cache = b.kv_layer(KvLayer(heads, key, value))
    out = b.buffer("attended", heads * value)
    b.emit(Attention(out, q, k, v, cache, heads, heads, key, value, scale))
    return out
