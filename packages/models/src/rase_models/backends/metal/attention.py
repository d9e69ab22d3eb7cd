"""Attention over the paged cache, group of sequences by group."""

import mlx.core as mx

from rase_models.backends.metal.cache import LayerCache
from rase_models.backends.metal.groups import Group
from rase_models.backends.metal.run import Run
from rase_models.backends.metal.seen import Seen
from rase_models.program import Attention

_FUSED_LENGTHS = (64, 80, 128)
"""Heads for which MLX has a kernel that makes no matrix of all scores."""
_MOST_SCORES = 1 << 27


def attention(op: Attention, run: Run) -> None:
    """Write all rows, then attend: a cache that is written to again after it was read would be copied."""
    cache = run.caches[op.layer]
    if op.k is not None and op.v is not None:
        cache.write(*run.places(cache.group), run.buffers[op.k], run.buffers[op.v])
    sinks = None if op.sinks is None else run.vector(op.sinks).reshape(-1)
    results = []
    for index, group in enumerate(run.groups):
        seen = run.seen(index, cache.group, op.window, op.chunked)
        rows = run.rows_of(run.buffers[op.q], group)
        attend = _attend_in_place if group.count == 1 and cache.kernels is not None else _attend_to_copy
        results.append(attend(op, cache, group, rows, seen, sinks))
    run.buffers[op.out] = run.gathered(results)


def _attend_in_place(
    op: Attention, cache: LayerCache, group: Group, rows: mx.array, seen: Seen, sinks: mx.array | None
) -> mx.array:
    """Return [sequences, 1, width] of single rows."""
    assert cache.kernels is not None
    q = rows.reshape(-1, op.head_count, op.key_length)
    return cache.kernels.attend(op, q, (cache.keys, cache.values), seen, sinks).reshape(len(q), 1, -1)


def _attend_to_copy(
    op: Attention, cache: LayerCache, group: Group, rows: mx.array, seen: Seen, sinks: mx.array | None
) -> mx.array:
    """Return [sequences, rows of each, width]; blocks that are seen are put next to each other before.

    Others may have left there what is no number, which neither a mask nor a weight of 0 makes harmless.
    """
    q = _heads(rows, op.head_count).astype(cache.dtype)
    keys, values = (mx.where(seen.is_written, array, 0) for array in cache.read(seen.blocks))
    mask, most = _mask(op, seen), _rows_at_once(op, q, keys)
    pieces = [
        _attend(op, q[:, :, first : first + most], mask[:, :, first : first + most], sinks, keys, values)
        for first in range(0, group.count, most)
    ]
    out = pieces[0] if len(pieces) == 1 else mx.concatenate(pieces, axis=2)
    return out.astype(mx.float32).transpose(0, 2, 1, 3).reshape(*group.rows.shape, -1)


def _rows_at_once(op: Attention, q: mx.array, keys: mx.array) -> int:
    """Return for how many rows of each sequence scores are made at once."""
    is_fused = op.key_length == op.value_length and op.key_length in _FUSED_LENGTHS and op.soft_cap is None
    sequences, heads, rows, _ = q.shape
    return rows if is_fused else max(1, _MOST_SCORES // (sequences * heads * keys.shape[2]))


def _heads(rows: mx.array, heads: int) -> mx.array:
    """Return [sequences, heads, rows of each, length]."""
    sequences, count, _ = rows.shape
    return rows.reshape(sequences, count, heads, -1).transpose(0, 2, 1, 3)


def _attend(
    op: Attention, q: mx.array, mask: mx.array, sinks: mx.array | None, keys: mx.array, values: mx.array
) -> mx.array:
    """Return [sequences, heads, rows of each, value length]."""
    if op.soft_cap is not None:
        return _soft_capped(op, op.soft_cap, q, mask, sinks, keys, values)
    sinks = None if sinks is None else sinks.astype(q.dtype)
    mask = mask.astype(q.dtype) if op.slopes else mask
    return mx.fast.scaled_dot_product_attention(q, keys, values, scale=op.scale, mask=mask, sinks=sinks)


def _mask(op: Attention, seen: Seen) -> mx.array:
    """Return which positions are visible; with slopes, what is added to scores, minus infinity elsewhere."""
    if not op.slopes:
        return seen.visible
    return mx.where(seen.visible, -seen.distance * mx.array(op.slopes).reshape(-1, 1, 1), -mx.inf)


def _soft_capped(
    op: Attention,
    cap: float,
    q: mx.array,
    mask: mx.array,
    sinks: mx.array | None,
    keys: mx.array,
    values: mx.array,
) -> mx.array:
    """Attend with capped scores, which MLX's own attention does not know."""
    sequences, heads, rows, length = q.shape
    queries = q.reshape(sequences, op.head_count_kv, -1, length)  # the heads of a KV head one after another
    scores = (queries @ mx.swapaxes(keys, -1, -2)).astype(mx.float32) * op.scale
    scores = cap * mx.tanh(scores / cap)
    scores = scores.reshape(sequences, heads, rows, -1)
    scores = scores + mask if op.slopes else mx.where(mask, scores, -mx.inf)
    if sinks is not None:
        extra = mx.broadcast_to(sinks.reshape(1, -1, 1, 1), (sequences, heads, rows, 1))
        scores = mx.concatenate([scores, extra], axis=-1)
    weights = mx.softmax(scores, axis=-1)[..., : keys.shape[2]]
    weights = weights.reshape(sequences, op.head_count_kv, -1, keys.shape[2])
    return (weights.astype(values.dtype) @ values).reshape(sequences, heads, rows, -1)
