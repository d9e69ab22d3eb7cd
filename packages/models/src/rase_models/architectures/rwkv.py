"""What models of the RWKV family have in common: rows mixed with those before, matrices of low rank.

The whole decoder is that of RWKV's own models; others have parts of it among parts of transformers.
"""

from collections.abc import Callable, Sequence

from rase_models.architectures.builder import Norm, ProgramBuilder
from rase_models.architectures.differences import Mixed
from rase_models.program import Activate, Activation, Add, Blend, LayerNorm, Program, Shift, SoftCap

HEAD_EPSILON = 64e-5

TimeMix = Callable[[ProgramBuilder, int, str], Mixed]
ChannelMix = Callable[[ProgramBuilder, int, str, str], str]
"""What emits a layer's network, given its number, the rows and those before them."""


def build_rwkv(b: ProgramBuilder, mix: TimeMix, network: ChannelMix, *, halved_every: int = 0) -> Program:
    """Emit the decoder; after so many layers each time, rows are halved."""
    rows = b.embed("rows")
    b.norm(rows, rows, "token_embd_norm", kind=Norm.LAYER)
    for layer in range(b.sizes.block_count):
        prefix = f"blk.{layer}."
        mixed = mix(b, layer, b.norm("normed", rows, f"{prefix}attn_norm", kind=Norm.LAYER))
        b.emit(Add(rows, rows, b.linear("update", mixed.buffer, mixed.output, b.sizes.embedding_length)))
        normed = b.norm("normed", rows, f"{prefix}attn_norm_2", kind=Norm.LAYER)
        before = shifted(b, normed)
        if layer == b.sizes.block_count - 1:  # nothing after this looks at other rows
            rows, normed, before = map(b.select_outputs, (rows, normed, before))
        update = network(b, layer, normed, before)
        halved = halved_every > 0 and (layer + 1) % halved_every == 0
        b.emit(Add(rows, rows, update, 0.5 if halved else 1.0))
    b.output(b.norm("normed", rows, "output_norm", kind=Norm.LAYER))
    return b.program()


def shifted(b: ProgramBuilder, x: str) -> str:
    """Emit the row before each row."""
    out = b.buffer("before", b.width(x))
    b.emit(Shift(out, x, b.state(b.width(x))))
    return out


def blended(b: ProgramBuilder, out: str, x: str, before: str, name: str, gate: str | None = None) -> str:
    """Emit x, moved toward the rows before by NAME.weight and a gate."""
    width = b.width(x)
    out = b.buffer(out, width)
    b.emit(Blend(out, x, before, b.tensors.vector(f"{name}.weight", width), gate))
    return out


def blended_all(
    b: ProgramBuilder, outs: Sequence[str], x: str, before: str, name: str, gates: str | None = None
) -> tuple[str, ...]:
    """Emit several of these at once, with the rows of NAME.weight."""
    width, count = b.width(x), len(outs)
    weight = b.tensors.vector(f"{name}.weight", count, 1, 1, width)
    whole = b.buffer("blended", count * width)
    b.emit(Blend(whole, x, before, weight, gates))
    return tuple(
        b.copy_parts(out, whole, 1, width, width, first=place * width) for place, out in enumerate(outs)
    )


def low_rank(
    b: ProgramBuilder,
    out: str,
    x: str,
    names: tuple[str, str],
    *,
    bias: str | None = None,
    between: Activation | None = None,
    capped: bool = False,
) -> str:
    """Emit x times two matrices, with an activation or a hyperbolic tangent between them."""
    first, second = names
    low = b.linear(f"{out}_low", x, first, b.tensors.rows_of(f"{first}.weight"))
    if between is not None:
        b.emit(Activate(low, low, between))
    if capped:
        b.emit(SoftCap(low, 1.0))
    return b.linear(out, low, second, b.width(x), bias=bias)


def read_heads(b: ProgramBuilder) -> int:
    """Read the number of heads, by their length."""
    width, length = b.sizes.embedding_length, b.keys.count("wkv.head_size")
    if width % length:
        raise b.keys.error("wkv.head_size", f"a divisor of the embedding length {width}", length)
    return width // length


def norm_heads(b: ProgramBuilder, x: str, name: str, heads: int) -> None:
    """Centre and norm every head, with weights and biases of its own."""
    width = b.width(x)
    weight, bias = (b.tensors.vector(f"{name}.{kind}", width) for kind in ("weight", "bias"))
    b.emit(LayerNorm(x, x, weight, bias, HEAD_EPSILON, heads, shared=False))
