"""The decoder that most architectures are: in each layer attention, then a feed-forward network.

Both are added to the rows. An architecture's file says how it differs. Norms of queries and keys, norms after
a part, biases and experts count where the file has their tensors.
"""

from collections.abc import Callable

from rase_models.architectures.attention import attend
from rase_models.architectures.builder import ProgramBuilder
from rase_models.architectures.differences import Differences, FeedForward, Mixed, Norms
from rase_models.architectures.feed_forward import feed_forward
from rase_models.program import Add, Embed, Program

ROWS = "rows"
"""The buffer of the rows, up to where only those are left whose logits are wanted."""

Mix = Callable[[ProgramBuilder, Differences, int, str], Mixed]
"""What emits the first part of a layer, given its number and a buffer."""

Network = Callable[[ProgramBuilder, Differences, int, str], str]
"""What emits the second part of a layer, given its number and a buffer; returns the one that it made."""


def build_decoder(
    b: ProgramBuilder, differences: Differences, mix: Mix = attend, network: Network = feed_forward
) -> Program:
    """Emit the whole decoder."""
    rows = b.embed(ROWS, differences.embedding_scale)
    if differences.learned_positions:
        _add_positions(b, rows)
    if differences.embedding_norm is not None:
        b.norm(rows, rows, differences.embedding_norm or None, kind=differences.norm)
    output_norm = differences.output_norm if differences.norm_weights else None
    for loop in range(differences.loops):
        if loop and differences.loops_normed:
            b.norm(rows, rows, output_norm, kind=differences.norm)
        for layer in range(b.sizes.block_count):
            is_last = layer == b.sizes.block_count - 1 and loop == differences.loops - 1
            rows = _block(b, differences, layer, rows, (mix, network), is_last=is_last)
    normed = b.norm("normed", rows, output_norm, kind=differences.norm)
    b.output(normed, factor=differences.logit_scale, soft_cap=differences.logit_cap)
    return b.program()


def _add_positions(b: ProgramBuilder, rows: str) -> None:
    width = b.width(rows)
    weight = b.tensors.matrix("position_embd.weight", b.sizes.context_length, width)
    positions = b.buffer("positions", width)
    b.emit(Embed(positions, weight, by_position=True))
    b.emit(Add(rows, rows, positions))


def _block(
    b: ProgramBuilder,
    differences: Differences,
    layer: int,
    rows: str,
    parts: tuple[Mix, Network],
    *,
    is_last: bool,
) -> str:
    """Emit a layer; return the rows, in the last layer those whose logits are wanted."""
    mix, network = parts
    normed, mixed = rows, None
    if layer not in differences.unmixed:
        normed = _norm_before(b, differences, layer, differences.attention_norms, rows)
        mixed = mix(b, differences, layer, _attention_input(b, differences, layer, rows, normed))
    values = [part.buffer for part in _parts(mixed)]
    if is_last:  # nothing after this looks at other rows
        rows, normed, values = _select_outputs(b, differences, rows, normed, mixed)
    width, factor = b.sizes.embedding_length, differences.residual_scale
    for part, buffer in zip(_parts(mixed), values, strict=True):
        update = b.linear("update", buffer, part.output, width, factor=factor * part.factor)
        _add(b, differences, layer, differences.attention_norms, rows, update)
    if differences.feed_forward is FeedForward.NONE or layer in differences.unfed:
        return rows
    if not differences.parallel:
        normed = _norm_before(b, differences, layer, differences.feed_forward_norms, rows)
    update = network(b, differences, layer, normed)
    _add(b, differences, layer, differences.feed_forward_norms, rows, update)
    return rows


def _parts(mixed: Mixed | None) -> tuple[Mixed, ...]:
    return () if mixed is None else (mixed, *_parts(mixed.second))


def _attention_input(b: ProgramBuilder, differences: Differences, layer: int, rows: str, normed: str) -> str:
    second = f"blk.{layer}.{differences.own_attention_norm}"
    if not differences.parallel or f"{second}.weight" not in b.tensors:
        return normed
    return b.norm("attention_input", rows, second, kind=differences.norm)


def _select_outputs(
    b: ProgramBuilder, differences: Differences, rows: str, normed: str, mixed: Mixed | None
) -> tuple[str, str, list[str]]:
    """Keep the wanted rows of what is read from here on; return these, the last ones what was mixed."""
    if differences.parallel:
        normed = b.select_outputs(normed)
    rows = b.select_outputs(rows)
    values = [b.select_outputs(part.buffer) for part in _parts(mixed)]
    if mixed is not None and mixed.kept is not None:
        b.select_outputs(mixed.kept)
    return rows, normed, values


def _norm_before(b: ProgramBuilder, differences: Differences, layer: int, norms: Norms, rows: str) -> str:
    if norms.before is None:
        return rows
    name = f"blk.{layer}.{norms.before}" if differences.norm_weights else None
    return b.norm("normed", rows, name, kind=differences.norm)


def _add(
    b: ProgramBuilder, differences: Differences, layer: int, norms: Norms, rows: str, update: str
) -> None:
    """Normalise the result of a part, if the file says so, and add it to the rows."""
    name = f"blk.{layer}.{norms.after}"
    if norms.after and (norms.after in differences.required or f"{name}.weight" in b.tensors):
        b.norm(update, update, name, kind=differences.norm, epsilon=norms.after_epsilon)
    b.emit(Add(rows, rows, update))
