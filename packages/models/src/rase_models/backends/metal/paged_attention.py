"""Kernels that attend to a paged cache where it is, for rows that are alone in their sequence.

A SIMD group takes some of the blocks that a row sees and keeps a running softmax of what one head makes of
them; a second kernel merges what the groups have found. So nothing is gathered, and the work of a long
context is spread over the GPU. No Apple compiler has read them yet.
"""

from dataclasses import dataclass
from functools import cache

import mlx.core as mx
import numpy as np

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.metal.kernel_maker import LANES, Kernel, KernelMaker
from rase_models.backends.metal.seen import Seen
from rase_models.program import Attention

_MOST_PARTS = 64  # SIMD groups of a head of a row: more would make merging long
_SIMD_GROUPS = 4
_LEAST = -3e38
"""In place of minus infinity, which compilers may take for granted not to be."""

_HEADER = f"enum : uint {{ TOKENS = {BLOCK_TOKENS}, LANES = {LANES} }};\n"

_ATTEND = """
    uint lane = thread_index_in_simdgroup, part = thread_position_in_grid.x / LANES;
    uint pair = thread_position_in_grid.y, heads = sizes[0], heads_kv = sizes[1], blocks = sizes[2];
    uint parts = sizes[3], row = pair / heads, head = pair % heads, head_kv = head / (heads / heads_kv);
    uint first = bounds[2 * row], last = bounds[2 * row + 1];
    float given[(KEY + LANES - 1) / LANES], sums[(VALUE + LANES - 1) / LANES];
    for (uint i = 0, e = lane; i * LANES < KEY; ++i, e += LANES) {
        given[i] = e < KEY ? q[ulong(pair) * KEY + e] * numbers[0] : 0.0f;
    }
    for (uint i = 0; i * LANES < VALUE; ++i) sums[i] = 0.0f;
    float peak = numbers[2], total = 0.0f;
    for (uint block = first / TOKENS + part; block * TOKENS <= last; block += parts) {
        ulong place = ulong(table[row * blocks + block]) * TOKENS;
        uint end = min(last, block * TOKENS + TOKENS - 1);
        for (uint position = max(first, block * TOKENS); position <= end; ++position) {
            ulong vector = (place + position % TOKENS) * heads_kv + head_kv;
            const device T* key = keys + vector * KEY;
            const device T* value = values + vector * VALUE;
            float score = 0.0f;
            for (uint i = 0, e = lane; i * LANES < KEY; ++i, e += LANES) {
                if (e < KEY) score += given[i] * float(key[e]);
            }
            score = simd_sum(score);
            if (numbers[1] > 0.0f) score = numbers[1] * tanh(score / numbers[1]);
            score -= slopes[head] * float(last - position);
            float higher = max(peak, score), keep = exp(peak - higher), weight = exp(score - higher);
            peak = higher;
            total = total * keep + weight;
            for (uint i = 0, e = lane; i * LANES < VALUE; ++i, e += LANES) {
                if (e < VALUE) sums[i] = sums[i] * keep + weight * float(value[e]);
            }
        }
    }
    ulong found = ulong(pair) * parts + part;
    for (uint i = 0, e = lane; i * LANES < VALUE; ++i, e += LANES) {
        if (e < VALUE) partial[found * VALUE + e] = sums[i];
    }
    if (lane == 0) peaks[found] = peak, totals[found] = total;
"""

_MERGE = """
    uint e = thread_position_in_grid.x, pair = thread_position_in_grid.y;
    uint parts = sizes[3], length = sizes[4];
    float sink = sinks[pair % sizes[0]], peak = sink;
    for (uint part = 0; part < parts; ++part) {
        float other = peaks[ulong(pair) * parts + part];
        peak = max(peak, other);
    }
    float total = exp(sink - peak), sum = 0.0f;
    for (uint part = 0; part < parts; ++part) {
        ulong found = ulong(pair) * parts + part;
        float share = exp(peaks[found] - peak);
        total += totals[found] * share;
        sum += partial[found * length + e] * share;
    }
    out[ulong(pair) * length + e] = sum / total;
"""


@dataclass(frozen=True, slots=True)
class AttentionKernels:
    """Attend for heads of any number and any length."""

    _attend: Kernel
    _merge: Kernel

    def attend(
        self,
        op: Attention,
        q: mx.array,
        cached: tuple[mx.array, mx.array],
        seen: Seen,
        sinks: mx.array | None,
    ) -> mx.array:
        """Return float32 [rows, heads, value length] of queries float32 [rows, heads, key length].

        `cached` are keys and values, [blocks, BLOCK_TOKENS, KV heads, length]; `seen` is that of these rows,
        each of another sequence; sinks are float32 [heads].
        """
        pairs, blocks = q.shape[0] * op.head_count, seen.blocks.shape[1]
        parts = min(blocks, _MOST_PARTS)
        sizes = mx.array([op.head_count, op.head_count_kv, blocks, parts, op.value_length], mx.uint32)
        numbers = mx.array([op.scale, op.soft_cap or 0.0, _LEAST])
        slopes = mx.array(np.array(op.slopes or [0.0] * op.head_count, np.float32))
        found = self._attend(
            inputs=[q, *cached, seen.blocks.astype(mx.uint32), seen.bounds, slopes, numbers, sizes],
            template=[("T", cached[0].dtype), ("KEY", op.key_length), ("VALUE", op.value_length)],
            grid=(LANES * parts, pairs, 1),
            threadgroup=(LANES * min(parts, _SIMD_GROUPS), 1, 1),
            output_shapes=[(pairs, parts, op.value_length), (pairs, parts), (pairs, parts)],
            output_dtypes=[mx.float32] * 3,
        )
        no_sinks = mx.array(np.full(op.head_count, _LEAST, np.float32))
        merged = self._merge(
            inputs=[*found, no_sinks if sinks is None else sinks, sizes],
            grid=(op.value_length, pairs, 1),
            threadgroup=(LANES * min(-(-op.value_length // LANES), _SIMD_GROUPS), 1, 1),
            output_shapes=[(q.shape[0], op.head_count, op.value_length)],
            output_dtypes=[mx.float32],
        )
        return merged[0]


@cache
def attention_kernels(make: KernelMaker) -> AttentionKernels:
    """Make the kernels."""
    given = ["q", "keys", "values", "table", "bounds", "slopes", "numbers", "sizes"]
    found = ["partial", "peaks", "totals"]
    return AttentionKernels(
        make("attend", given, found, _ATTEND, header=_HEADER),
        make("merge", [*found, "sinks", "sizes"], ["out"], _MERGE, header=_HEADER),
    )
