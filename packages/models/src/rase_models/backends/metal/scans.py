"""What the ops mean that shift rows, scan channels, or keep a matrix of keys and values."""

import mlx.core as mx

from rase_models.backends.metal.run import Run
from rase_models.program import KeyedScan, SelectiveScan, Shift


def shift(op: Shift, run: Run) -> None:
    x, results = run.buffers[op.x], []
    for group, state in run.states_of(op.state):
        rows = x[mx.array(group.rows)]
        results.append(mx.concatenate([state[:, None], rows[:, :-1]], axis=1))
        run.keep_states(op.state, group, rows[:, -1])
    run.buffers[op.out] = run.gathered(results)


def selective_scan(op: SelectiveScan, run: Run) -> None:
    x, step, b, c = (run.buffers[name] for name in (op.x, op.step, op.b, op.c))
    decay, skip = run.vector(op.decay), run.vector(op.skip).reshape(-1)
    results = []
    for group, state in run.states_of(op.state):
        h, outs = state.reshape(state.shape[0], x.shape[1], b.shape[1]), []
        for column in group.rows.T:
            rows = mx.array(column)
            h = mx.exp(step[rows][..., None] * decay) * h
            h = h + (step[rows] * x[rows])[..., None] * b[rows][:, None]
            outs.append((h @ c[rows][..., None])[..., 0] + skip * x[rows])
        results.append(mx.stack(outs, axis=1))
        run.keep_states(op.state, group, h)
    run.buffers[op.out] = run.gathered(results)


def keyed_scan(op: KeyedScan, run: Run) -> None:
    q, k, v, keep = (run.parts(name, op.heads) for name in (op.q, op.k, op.v, op.keep))
    corrects = op.a is not None and op.b is not None
    a, b = (run.parts(op.a, op.heads), run.parts(op.b, op.heads)) if op.a and op.b else (q, q)
    results = []
    for group, state in run.states_of(op.state):
        h, outs = state.reshape(state.shape[0], op.heads, q.shape[-1], v.shape[-1]), []
        for column in group.rows.T:
            rows = mx.array(column)
            before = h
            h = keep[rows][..., None] * before + k[rows][..., None] * v[rows][:, :, None]
            if corrects:
                h = h + b[rows][..., None] * (a[rows][:, :, None] @ before)
            read = before if op.reads_before else h
            outs.append((q[rows][:, :, None] @ read)[:, :, 0] * op.scale)
        results.append(mx.stack(outs, axis=1).reshape(state.shape[0], len(outs), -1))
        run.keep_states(op.state, group, h)
    run.buffers[op.out] = run.gathered(results)
