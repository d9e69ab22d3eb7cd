"""What the ops mean that carry a state from one row of a sequence to the next."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.reference.run import Floats, Run
from rase_models.program import GatedDelta, KeyedScan, SelectiveScan, Shift, ShortConv, StateScan


def short_conv(op: ShortConv, run: Run) -> None:
    x, weight = run.buffers[op.x], run.weights[op.weight].reshape(-1, op.taps)
    out, before = np.empty_like(x), (op.taps - 1, x.shape[1])
    for rows, state in _sequences(run, op.state):
        padded = np.concatenate([state.reshape(before), x[rows]])
        taps = [weight[:, j] * padded[j : j + len(rows)] for j in range(op.taps)]
        out[rows] = np.sum(taps, axis=0, dtype=np.float32)
        state[:] = padded[len(rows) :].reshape(-1)
    run.buffers[op.out] = out if op.bias is None else out + run.weights[op.bias]


def state_scan(op: StateScan, run: Run) -> None:
    x = _parts(run, op.x, op.heads)
    b, c = (_parts(run, name, op.groups) for name in (op.b, op.c))
    b, c = (np.repeat(values, op.heads // op.groups, axis=1) for values in (b, c))
    step, out = run.buffers[op.step][..., None, None], np.empty_like(x)
    decay, skip = (run.weights[name].reshape(-1, 1, 1) for name in (op.decay, op.skip))
    for rows, state in _sequences(run, op.state):
        h = state.reshape(op.heads, x.shape[-1], b.shape[-1])
        for row in rows:
            h[:] = np.exp(step[row] * decay) * h + step[row] * x[row, ..., None] * b[row, :, None]
            out[row] = (h @ c[row, ..., None])[..., 0] + skip[..., 0] * x[row]
    run.buffers[op.out] = out.reshape(len(x), -1)


def gated_delta(op: GatedDelta, run: Run) -> None:
    q, k = (_normalised(_parts(run, name, op.key_heads), op.eps) for name in (op.q, op.k))
    q, k = (np.tile(values, (1, op.heads // op.key_heads, 1)) for values in (q, k))
    v = _parts(run, op.v, op.heads)
    step, beta = (run.buffers[name][..., None] for name in (op.step, op.beta))
    decay, out = run.weights[op.decay].reshape(-1, 1, 1), np.empty_like(v)
    for rows, state in _sequences(run, op.state):
        h = state.reshape(op.heads, q.shape[-1], v.shape[-1])
        for row in rows:
            h *= np.exp(step[row][..., None] * decay)
            change = beta[row] * (v[row] - np.einsum("hkv,hk->hv", h, k[row]))
            h += k[row][..., None] * change[:, None]
            out[row] = np.einsum("hkv,hk->hv", h, q[row]) / np.sqrt(np.float32(q.shape[-1]))
    run.buffers[op.out] = out.reshape(len(v), -1)


def shift(op: Shift, run: Run) -> None:
    x = run.buffers[op.x]
    out = np.empty_like(x)
    for rows, state in _sequences(run, op.state):
        out[rows] = np.concatenate([state[None], x[rows[:-1]]])
        state[:] = x[rows[-1]]
    run.buffers[op.out] = out


def selective_scan(op: SelectiveScan, run: Run) -> None:
    x, step, b, c = (run.buffers[name] for name in (op.x, op.step, op.b, op.c))
    decay, skip, out = run.weights[op.decay], run.weights[op.skip].reshape(-1), np.empty_like(x)
    for rows, state in _sequences(run, op.state):
        h = state.reshape(x.shape[1], b.shape[1])
        for row in rows:
            h[:] = np.exp(step[row, :, None] * decay) * h + (step[row] * x[row])[:, None] * b[row]
            out[row] = h @ c[row] + skip * x[row]
    run.buffers[op.out] = out


def keyed_scan(op: KeyedScan, run: Run) -> None:
    q, k, v, keep = (_parts(run, name, op.heads) for name in (op.q, op.k, op.v, op.keep))
    correction = None if op.a is None or op.b is None else [_parts(run, x, op.heads) for x in (op.a, op.b)]
    out = np.empty_like(v)
    for rows, state in _sequences(run, op.state):
        h = state.reshape(op.heads, q.shape[-1], v.shape[-1])
        for row in rows:
            before = h.copy()
            h[:] = keep[row, ..., None] * before + k[row, ..., None] * v[row, :, None]
            if correction is not None:
                a, b = (values[row] for values in correction)
                h += b[..., None] * np.einsum("hkv,hk->hv", before, a)[:, None]
            read = before if op.reads_before else h
            out[row] = np.einsum("hkv,hk->hv", read, q[row]) * np.float32(op.scale)
    run.buffers[op.out] = out.reshape(len(v), -1)


def _parts(run: Run, name: str, parts: int) -> Floats:
    values = run.buffers[name]
    return values.reshape(len(values), parts, -1)


def _normalised(x: Floats, eps: float) -> Floats:
    return np.asarray(x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True) + eps), np.float32)


def _sequences(run: Run, layer: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Give the rows of every sequence with its state, which may be changed."""
    rows = run.rows
    for sequence in np.unique(rows.sequences):
        own = np.flatnonzero(rows.sequences == sequence)
        state = run.states[layer][rows.states[sequence]]
        if rows.positions[own[0]] == 0:
            state[:] = 0
        yield own, state
