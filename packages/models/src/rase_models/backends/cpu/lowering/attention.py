"""Attention, and what happens to heads before it."""

from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi, shapes
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource, Row
from rase_models.backends.cpu.steps import Preparation, PreparedAttention
from rase_models.program import Attention, Rope, RopePairing, Rotate


def _rope_words(rope: Rope) -> Words:
    return {
        abi.ROPE_DIMENSIONS: rope.dimensions,
        abi.ROPE_HALVES: int(rope.pairing is RopePairing.HALVES),
    }


def emit_rotate(low: Lowering, step: Rotate) -> None:
    length = low.buffers.width(step.x) // step.heads
    words = low.floats_in(step.x) | _rope_words(step.rope) | {abi.HEADS: step.heads, abi.K: length}
    floats: list[Resource] = [("floats", step.x)]
    index = low.emit(KernelKey("rotate"), words, floats, floats)
    low.lowered.rope_rows.append((index, step.rope))
    low.quantise_if_wanted(step.x)


def _cache_words(low: Lowering, step: Attention) -> Words:
    place = low.kv_places.layers[step.layer]
    return {
        abi.HEADS: step.head_count,
        abi.KV_HEADS: step.head_count_kv,
        abi.KEY_LENGTH: step.key_length,
        abi.VALUE_LENGTH: step.value_length,
        abi.KV_OFFSET: place.offset,
        abi.KV_GROUP: place.group,
        abi.KV_HEAD_NBYTES: place.head_nbytes,
        abi.KEYS_NBYTES: place.keys_nbytes,
    }


def _kernel(low: Lowering, name: str) -> KernelKey:
    """Return the kernel for the type of the cache."""
    return KernelKey(name, (low.kv_places.kv_type.value,))


def emit_attention(low: Lowering, step: Attention) -> None:
    if step.k is not None and step.v is not None:
        words = _cache_words(low, step) | low.floats_in(step.k) | low.floats_in(step.v, abi.V, abi.V_STRIDE)
        reads: list[Resource] = [("floats", step.k), ("floats", step.v)]
        low.emit(_kernel(low, "store_kv"), words, reads, [("cache", step.layer)])
    _attend(low, step)


def emit_prepared_attention(low: Lowering, step: PreparedAttention) -> None:
    attention = step.attention
    words = _cache_words(low, attention) | low.floats_in(step.k)
    words |= low.floats_in(attention.q, abi.Q, abi.Q_STRIDE) | low.floats_in(step.v, abi.V, abi.V_STRIDE)
    length = attention.key_length
    words |= _preparation_words(low, step.queries, abi.Q_NORM, length)
    words |= _preparation_words(low, step.keys, abi.K_NORM, length)
    q_and_k: list[Resource] = [("floats", attention.q), ("floats", step.k)]
    writes: list[Resource] = [*q_and_k, ("cache", attention.layer)]
    index = low.emit(_kernel(low, "prepare_heads"), words, [*q_and_k, ("floats", step.v)], writes)
    if step.queries.rope is not None:
        low.lowered.rope_rows.append((index, step.queries.rope))
    _attend(low, attention)


def _preparation_words(low: Lowering, preparation: Preparation, norm: int, length: int) -> Words:
    words: Words = {norm: 0, abi.ROPE_DIMENSIONS: 0}
    if preparation.rope is not None:
        words |= _rope_words(preparation.rope)
    if preparation.norm is not None:
        words |= {norm: low.norm_weight(preparation.norm.weight, length), abi.EPSILON: preparation.norm.eps}
    return words


def _attend(low: Lowering, step: Attention) -> None:
    _check_lengths(step)
    low.need_scratch(shapes.attention_scratch_nbytes(step.value_length))
    low.lowered.value_length = max(low.lowered.value_length, step.value_length)
    table = _tile_table(low, step)
    words = _attention_words(low, step, table)
    reads: list[Resource] = [("floats", step.q), ("cache", step.layer), ("tiles", table)]
    whole_records = step.value_length % 32 == 0
    if whole_records:
        outputs, writes, flags = low.values_out(step.out)
    else:
        outputs, flags = low.floats_out(step.out)
        writes, flags = [("floats", step.out)], flags | abi.WRITE_FLOATS
    words |= outputs
    spans: Resource = ("spans", None)
    low.emit(_kernel(low, "attend"), words, reads, [*writes, spans], flags)
    low.emit(KernelKey("merge_spans"), words, [spans, ("tiles", table)], [*writes, spans], flags)
    if not whole_records:
        low.quantise_if_wanted(step.out)


def _attention_words(low: Lowering, step: Attention, table: int) -> Words:
    return {
        **_cache_words(low, step),
        **low.floats_in(step.q, abi.Q, abi.Q_STRIDE),
        abi.TILES: table,
        abi.WINDOW: step.window or 0,
        abi.CHUNKED: int(step.chunked),
        abi.SCALE: step.scale,
        abi.SOFT_CAP: step.soft_cap or 0.0,
        abi.SLOPES: low.constants(step.slopes),
        abi.SINKS: 0 if step.sinks is None else low.vector(step.sinks),
    }


def _check_lengths(step: Attention) -> None:
    for length in (step.key_length, step.value_length):
        if length % 16 != 0:
            raise BackendFailure(
                f"the CPU backend cannot attend with heads of {length} values", "it needs multiples of 16"
            )


def _tile_table(low: Lowering, step: Attention) -> int:
    """Return the address of the table of query tiles, which the first ops of a program make."""
    group = step.head_count // step.head_count_kv
    key = (step.head_count, step.head_count_kv)
    if key not in low.tile_tables:
        address = int(low.arena.take(shapes.tile_table_nbytes(low.max_rows, group)).ctypes.data)
        low.tile_tables[key] = address
        words: Words = {abi.TILES: address, abi.HEADS: step.head_count, abi.KV_HEADS: step.head_count_kv}
        low.lowered.rows.append(
            Row(KernelKey("cut_queries"), words, 0, frozenset(), frozenset({("tiles", address)}))
        )
    return low.tile_tables[key]
