"""Attention over the paged cache, group of sequences by group."""

import mlx.core as mx
import numpy as np

from rase_models.backends.metal.groups import Group
from rase_models.backends.metal.run import Run, Seen
from rase_models.program import Attention


def attention(op: Attention, run: Run) -> None:
    cache = run.caches[op.layer]
    table = run.rows.block_tables[cache.group]
    results = []
    for index, group in enumerate(run.groups):
        rows = mx.array(group.rows)
        if op.k is not None and op.v is not None:
            cache.write(table, group, run.buffers[op.k][rows], run.buffers[op.v][rows])
        seen = run.seen(index, cache.group, op.window, op.chunked)
        q = _heads(run.buffers[op.q][rows], op.head_count).astype(cache.dtype)
        out = _attend(op, run, q, seen, *cache.read(seen.blocks))
        results.append(_rows_again(out.astype(mx.float32), group))
    run.buffers[op.out] = run.gathered(results)


def _heads(rows: mx.array, heads: int) -> mx.array:
    """Return [sequences, heads, rows of each, length]."""
    sequences, count, _ = rows.shape
    return rows.reshape(sequences, count, heads, -1).transpose(0, 2, 1, 3)


def _rows_again(out: mx.array, group: Group) -> mx.array:
    return out.transpose(0, 2, 1, 3).reshape(*group.rows.shape, -1)


def _attend(op: Attention, run: Run, q: mx.array, seen: Seen, keys: mx.array, values: mx.array) -> mx.array:
    """Return [sequences, heads, rows of each, value length]."""
    mask = _mask(op, seen)
    sinks = None if op.sinks is None else run.vector(op.sinks).reshape(-1)
    if op.soft_cap is None:
        sinks = None if sinks is None else sinks.astype(q.dtype)
        mask = mask.astype(q.dtype) if op.slopes else mask
        return mx.fast.scaled_dot_product_attention(q, keys, values, scale=op.scale, mask=mask, sinks=sinks)
    return _soft_capped(op, op.soft_cap, q, mask, sinks, keys, values)


def _mask(op: Attention, seen: Seen) -> mx.array:
    """Return which positions are visible; with slopes, what is added to scores, minus infinity elsewhere."""
    if not op.slopes:
        return seen.visible
    distance = mx.array(seen.distance.astype(np.float32))
    return mx.where(seen.visible, -distance * mx.array(op.slopes).reshape(-1, 1, 1), -mx.inf)


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
