"""What the ops mean that carry a state from one row of a sequence to the next."""

import mlx.core as mx

from rase_models.backends.metal.run import Run
from rase_models.backends.metal.scans import steps
from rase_models.program import GatedDelta, ShortConv, StateScan


def short_conv(op: ShortConv, run: Run) -> None:
    x, weight = run.buffers[op.x], run.vector(op.weight).reshape(-1, op.taps)
    results = []
    for group, state in run.states_of(op.state):
        rows = run.rows_of(x, group)
        count = rows.shape[1]
        padded = mx.concatenate([state.reshape(len(state), op.taps - 1, -1), rows], axis=1)
        taps = [weight[:, j] * padded[:, j : j + count] for j in range(op.taps)]
        results.append(mx.stack(taps).sum(axis=0))
        run.keep_states(op.state, group, padded[:, count:])
    out = run.gathered(results)
    run.buffers[op.out] = out if op.bias is None else out + run.vector(op.bias)


def state_scan(op: StateScan, run: Run) -> None:
    x = run.parts(op.x, op.heads)
    b, c = (mx.repeat(run.parts(name, op.groups), op.heads // op.groups, axis=1) for name in (op.b, op.c))
    step = run.buffers[op.step]
    decay, skip = run.vector(op.decay).reshape(-1), run.vector(op.skip).reshape(-1, 1)
    shares = mx.exp(step * decay)
    results = []
    for group, state in run.states_of(op.state):
        h = state.reshape(len(state), op.heads, x.shape[-1], b.shape[-1])
        inputs, outs = steps(run, group, shares, step[..., None] * x, b, c, skip * x), []
        for share, change, b_row, c_row, skipped in inputs:
            h = share[..., None, None] * h + change[..., None] * b_row[:, :, None]
            outs.append((h @ c_row[..., None])[..., 0] + skipped)
        results.append(mx.stack(outs, axis=1).reshape(len(state), len(outs), -1))
        run.keep_states(op.state, group, h)
    run.buffers[op.out] = run.gathered(results)


def gated_delta(op: GatedDelta, run: Run) -> None:
    repeats = op.heads // op.key_heads
    q, k = (
        mx.tile(_normalised(run.parts(name, op.key_heads), op.eps), (1, repeats, 1)) for name in (op.q, op.k)
    )
    q = q / q.shape[-1] ** 0.5
    v, beta = run.parts(op.v, op.heads), run.buffers[op.beta]
    shares = mx.exp(run.buffers[op.step] * run.vector(op.decay).reshape(-1))
    results = []
    for group, state in run.states_of(op.state):
        h = state.reshape(len(state), op.heads, q.shape[-1], v.shape[-1])
        outs = []
        for share, q_row, k_row, v_row, part in steps(run, group, shares, q, k, v, beta[..., None]):
            h = share[..., None, None] * h
            change = part * (v_row - (k_row[:, :, None] @ h)[:, :, 0])
            h = h + k_row[..., None] * change[:, :, None]
            outs.append((q_row[:, :, None] @ h)[:, :, 0])
        results.append(mx.stack(outs, axis=1).reshape(len(state), len(outs), -1))
        run.keep_states(op.state, group, h)
    run.buffers[op.out] = run.gathered(results)


def _normalised(x: mx.array, eps: float) -> mx.array:
    return x * mx.rsqrt(mx.square(x).sum(axis=-1, keepdims=True) + eps)
