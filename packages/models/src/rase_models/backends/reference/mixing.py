"""What the ops mean that mix buffers value by value, or by weights that a run has computed."""

import numpy as np

from rase_models.backends.reference.run import Floats, Run
from rase_models.program import AddDots, Blend, Clamp, MixParts, Rescale, Scale, Sparsify, Xielu


def scale(op: Scale, run: Run) -> None:
    x, factor = run.buffers[op.x], np.float32(op.factor)
    if op.weight is None:
        run.buffers[op.out] = x * factor
        return
    weight = run.weights[op.weight].reshape(-1)
    run.buffers[op.out] = x * np.repeat(weight, x.shape[1] // (op.parts or x.shape[1])) * factor


def blend(op: Blend, run: Run) -> None:
    width = run.buffers[op.x].shape[1]
    x, y = run.buffers[op.x][:, None], run.buffers[op.y][:, None]
    share: Floats = np.zeros((1, 1, 1), np.float32)
    if op.weight is not None:
        share = np.add(share, run.weights[op.weight].reshape(1, -1, width))
    if op.gate is not None:
        share = np.add(share, _of_length(run.buffers[op.gate], width))
    run.buffers[op.out] = _flat(x + (y - x) * share)


def mix_parts(op: MixParts, run: Run) -> None:
    x, base = (_of_length(run.buffers[name], op.length) for name in (op.x, op.base))
    weights = _of_length(run.buffers[op.weights], x.shape[1])
    added = np.asarray((weights + np.float32(op.offset)) @ x, np.float32)
    run.buffers[op.out] = _flat(base + added)


def rescale(op: Rescale, run: Run) -> None:
    x = _parts(run.buffers[op.x], op.heads)
    wanted = np.square(run.buffers[op.like]).sum(axis=-1)[:, None, None]
    found = np.square(x).sum(axis=-1, keepdims=True)
    run.buffers[op.out] = _flat(x * np.sqrt(wanted / (found + np.float32(op.eps))))


def sparsify(op: Sparsify, run: Run) -> None:
    x = run.buffers[op.x]
    deviation = x.std(axis=1, keepdims=True, ddof=1)
    cut = x.mean(axis=1, keepdims=True) + np.float32(op.deviations) * deviation
    run.buffers[op.out] = np.maximum(x - cut, np.float32(0))


def xielu(op: Xielu, run: Run) -> None:
    x = run.buffers[op.x]
    high, low = np.maximum(x, np.float32(0)), np.minimum(x, np.float32(0))
    above, below, slope = (np.float32(number) for number in (op.above, op.below, op.slope))
    run.buffers[op.out] = above * np.square(high) + below * (np.expm1(low) - low) + slope * x


def clamp(op: Clamp, run: Run) -> None:
    run.buffers[op.out] = np.clip(run.buffers[op.x], np.float32(-op.limit), np.float32(op.limit))


def add_dots(op: AddDots, run: Run) -> None:
    x, q, k, v = (_parts(run.buffers[name], op.heads) for name in (op.x, op.q, op.k, op.v))
    dots = (q * k * run.weights[op.weight].reshape(1, op.heads, -1)).sum(axis=-1, keepdims=True)
    run.buffers[op.out] = _flat(x + dots * v)


def _parts(x: Floats, parts: int) -> Floats:
    """Return the equal parts of every row; a run that wants no outputs has none in the end."""
    return _of_length(x, x.shape[1] // parts)


def _of_length(x: Floats, length: int) -> Floats:
    """Return the parts of so many values of every row."""
    return x.reshape(len(x), x.shape[1] // length, length)


def _flat(parts: Floats) -> Floats:
    """Return parts as rows again."""
    return np.asarray(parts, np.float32).reshape(len(parts), parts.shape[1] * parts.shape[2])
