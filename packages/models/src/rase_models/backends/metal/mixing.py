"""What the ops mean that mix buffers value by value, or by weights that a run has computed."""

import mlx.core as mx

from rase_models.backends.metal.run import Run
from rase_models.program import AddDots, Blend, Clamp, MixParts, Rescale, Scale, Sparsify, Xielu


def _flat(parts: mx.array) -> mx.array:
    return parts.reshape(parts.shape[0], -1)


def scale(op: Scale, run: Run) -> None:
    x = run.buffers[op.x]
    if op.weight is None:
        run.buffers[op.out] = x * op.factor
        return
    weight = run.vector(op.weight).reshape(-1)
    run.buffers[op.out] = x * mx.repeat(weight, x.shape[1] // (op.parts or x.shape[1])) * op.factor


def blend(op: Blend, run: Run) -> None:
    x, y = run.buffers[op.x][:, None], run.buffers[op.y][:, None]
    share = mx.zeros((1, 1, x.shape[2]))
    if op.weight is not None:
        share = share + run.vector(op.weight).reshape(1, -1, x.shape[2])
    if op.gate is not None:
        share = share + run.buffers[op.gate].reshape(x.shape[0], -1, x.shape[2])
    run.buffers[op.out] = _flat(x + (y - x) * share)


def mix_parts(op: MixParts, run: Run) -> None:
    x, base = (run.buffers[name] for name in (op.x, op.base))
    x, base = (values.reshape(values.shape[0], -1, op.length) for values in (x, base))
    weights = run.buffers[op.weights].reshape(x.shape[0], base.shape[1], x.shape[1]) + op.offset
    run.buffers[op.out] = _flat(base + weights @ x)


def rescale(op: Rescale, run: Run) -> None:
    x = run.parts(op.x, op.heads)
    wanted = mx.square(run.buffers[op.like]).sum(axis=-1)[:, None, None]
    run.buffers[op.out] = _flat(x * mx.sqrt(wanted / (mx.square(x).sum(axis=-1, keepdims=True) + op.eps)))


def sparsify(op: Sparsify, run: Run) -> None:
    x = run.buffers[op.x]
    cut = x.mean(axis=1, keepdims=True) + op.deviations * mx.std(x, axis=1, keepdims=True, ddof=1)
    run.buffers[op.out] = mx.maximum(x - cut, 0.0)


def xielu(op: Xielu, run: Run) -> None:
    x = run.buffers[op.x]
    high, low = mx.maximum(x, 0.0), mx.minimum(x, 0.0)
    run.buffers[op.out] = op.above * mx.square(high) + op.below * (mx.expm1(low) - low) + op.slope * x


def clamp(op: Clamp, run: Run) -> None:
    run.buffers[op.out] = mx.clip(run.buffers[op.x], -op.limit, op.limit)


def add_dots(op: AddDots, run: Run) -> None:
    x, q, k, v = (run.parts(name, op.heads) for name in (op.x, op.q, op.k, op.v))
    dots = (q * k * run.vector(op.weight).reshape(1, op.heads, -1)).sum(axis=-1, keepdims=True)
    run.buffers[op.out] = _flat(x + dots * v)
