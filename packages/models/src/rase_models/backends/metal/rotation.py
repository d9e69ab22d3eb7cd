"""Rotary positions."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from rase_models.backends.metal.fusing import fused
from rase_models.backends.metal.run import Run
from rase_models.program import Rope, RopePairing, Rotate


def _turn_first(a: mx.array, b: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    return a * cosine - b * sine


def _turn_second(a: mx.array, b: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    return a * sine + b * cosine


_FIRST, _SECOND = fused(_turn_first), fused(_turn_second)


def _adjacent(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    a, b = x[..., 0::2], x[..., 1::2]
    turned = mx.stack([_FIRST(a, b, cosine, sine), _SECOND(a, b, cosine, sine)], axis=-1)
    return turned.reshape(x.shape)


def _halves(x: mx.array, cosine: mx.array, sine: mx.array) -> mx.array:
    a, b = mx.split(x, 2, axis=-1)
    return mx.concatenate([_FIRST(a, b, cosine, sine), _SECOND(a, b, cosine, sine)], axis=-1)


_TURNS: Mapping[RopePairing, Callable[[mx.array, mx.array, mx.array], mx.array]] = MappingProxyType(
    {RopePairing.ADJACENT: _adjacent, RopePairing.HALVES: _halves}
)


def rotate(op: Rotate, run: Run) -> None:
    x, rope = run.parts(op.x, op.heads), op.rope
    if rope not in run.turns:
        run.turns[rope] = _angles(rope, run.rows.positions)
    turned = _TURNS[rope.pairing](x[..., : rope.dimensions], *run.turns[rope])
    whole = mx.concatenate([turned, x[..., rope.dimensions :]], axis=-1)
    run.buffers[op.x] = whole.reshape(x.shape[0], -1)


def _angles(rope: Rope, positions: NDArray[np.int32]) -> tuple[mx.array, mx.array]:
    """Return cosines and sines for the pairs of every row, [rows, 1, pairs]; angles are float64."""
    angles = positions[:, None, None] * np.array(rope.frequencies)
    steps = np.log1p((positions + rope.growth_first) // rope.growth_length)
    magnitude = (rope.magnitude * (1 + rope.growth * steps))[:, None, None]
    cosine, sine = np.cos(angles) * magnitude, np.sin(angles) * magnitude
    return mx.array(cosine.astype(np.float32)), mx.array(sine.astype(np.float32))
