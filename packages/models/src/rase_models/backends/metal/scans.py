"""What the ops mean that shift rows, scan channels, or keep a matrix of keys and values."""

from collections.abc import Iterator

import mlx.core as mx

from rase_models.backends.metal.groups import Group
from rase_models.backends.metal.run import Run
from rase_models.program import KeyedScan, SelectiveScan, Shift


def steps(run: Run, group: Group, *values: mx.array) -> Iterator[tuple[mx.array, ...]]:
    """Give of each value [rows of the run, ...] a group's first rows, then its second: [sequences, ...]."""
    rows = [run.rows_of(value, group) for value in values]
    for step in range(group.count):
        yield tuple(row[:, step] for row in rows)


def shift(op: Shift, run: Run) -> None:
    x, results = run.buffers[op.x], []
    for group, state in run.states_of(op.state):
        rows = run.rows_of(x, group)
        results.append(mx.concatenate([state[:, None], rows[:, :-1]], axis=1))
        run.keep_states(op.state, group, rows[:, -1])
    run.buffers[op.out] = run.gathered(results)


def selective_scan(op: SelectiveScan, run: Run) -> None:
    x, step, b, c = (run.buffers[name] for name in (op.x, op.step, op.b, op.c))
    decay, skip = run.vector(op.decay), run.vector(op.skip).reshape(-1)
    results = []
    for group, state in run.states_of(op.state):
        h, outs = state.reshape(state.shape[0], x.shape[1], b.shape[1]), []
        for s, change, b_row, c_row, skipped in steps(run, group, step, step * x, b, c, skip * x):
            h = mx.exp(s[..., None] * decay) * h + change[..., None] * b_row[:, None]
            outs.append((h @ c_row[..., None])[..., 0] + skipped)
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
        for q_row, k_row, v_row, kept, a_row, b_row in steps(run, group, q, k, v, keep, a, b):
            before = h
            h = kept[..., None] * before + k_row[..., None] * v_row[:, :, None]
            if corrects:
                h = h + b_row[..., None] * (a_row[:, :, None] @ before)
            read = before if op.reads_before else h
            outs.append((q_row[:, :, None] @ read)[:, :, 0] * op.scale)
        results.append(mx.stack(outs, axis=1).reshape(state.shape[0], len(outs), -1))
        run.keep_states(op.state, group, h)
    run.buffers[op.out] = run.gathered(results)
