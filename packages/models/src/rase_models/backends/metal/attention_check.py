"""What the kernels of paged attention find in a small cache, against numpy."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.base import BLOCK_TOKENS
from rase_models.backends.metal.groups import Group, window_of
from rase_models.backends.metal.kernel_maker import KernelMaker
from rase_models.backends.metal.paged_attention import attention_kernels
from rase_models.backends.metal.seen import Seen
from rase_models.program import Attention

_Floats = NDArray[np.floating]

_HEADS, _HEADS_KV = 4, 2
_SLOPES = (0.01, 0.02, 0.03, 0.04)
_SINKS = np.array([0.1, -1.0, 0.0, 2.0], np.float32)
_POSITIONS = np.array([[2 * BLOCK_TOKENS + 9], [7]])
_TABLE = np.array([[4, 1, 3], [2, -1, -1]], np.int32)


def attention_error(key_length: int, value_length: int, dtype: mx.Dtype, make: KernelMaker) -> float:
    """Return the largest error, in parts of the largest value, of two rows and all that changes scores."""
    op = Attention("o", "q", "k", "v", 0, _HEADS, _HEADS_KV, key_length, value_length, key_length**-0.5)
    op = replace(op, window=BLOCK_TOKENS + 30, soft_cap=3.0, sinks="sinks", slopes=_SLOPES)
    rng, shape = np.random.default_rng(0), (int(_TABLE.max()) + 1, BLOCK_TOKENS, _HEADS_KV)
    shapes = ((len(_TABLE), _HEADS, key_length), (*shape, key_length), (*shape, value_length))
    q, keys, values = (mx.array(rng.standard_normal(shape), mx.float32) for shape in shapes)
    cached = keys.astype(dtype), values.astype(dtype)
    group = Group(np.arange(len(_TABLE))[:, None], np.arange(len(_TABLE)), _POSITIONS)
    seen = Seen(window_of(group, _TABLE, op.window))
    found = attention_kernels(make).attend(op, q, cached, seen, mx.array(_SINKS))
    held = [np.array(array.astype(mx.float32), np.float64) for array in cached]
    rows = zip(np.array(q), _POSITIONS[:, 0], _TABLE, strict=True)
    wanted = np.stack([_attended(op, *row, *held) for row in rows])
    return float(np.abs(np.array(found) - wanted).max() / np.abs(wanted).max())


def _attended(
    op: Attention, q: _Floats, last: int, table: NDArray[np.int32], keys: _Floats, values: _Floats
) -> _Floats:
    """Return what one row attends to, [heads, value length]."""
    seen = np.arange(max(0, last + 1 - (op.window or 0)), last + 1)
    places = table[seen // BLOCK_TOKENS], seen % BLOCK_TOKENS
    keys, values = (np.repeat(array[places], _HEADS // _HEADS_KV, axis=1) for array in (keys, values))
    scores, cap = np.einsum("hd,phd->hp", q, keys) * op.scale, op.soft_cap or 1.0
    scores = cap * np.tanh(scores / cap) - np.array(_SLOPES)[:, None] * (last - seen)
    weights = np.exp(np.concatenate([scores, _SINKS[:, None]], axis=1))
    shares = (weights / weights.sum(axis=1, keepdims=True))[:, :-1]
    result: _Floats = np.einsum("hp,phd->hd", shares, values)
    return result
