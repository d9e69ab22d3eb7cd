"""Mixtures of experts: which experts a row gets, and their products."""

import mlx.core as mx

from rase_models.backends.metal.activations import gated
from rase_models.backends.metal.run import Run
from rase_models.program import MoeFfn, Scoring


def moe_ffn(op: MoeFfn, run: Run) -> None:
    x = run.buffers[op.x]
    experts, shares = _chosen(op, run)
    rows = x[:, None, None, :]
    if op.weighs_inputs:
        rows, shares = rows * shares[..., None, None], mx.ones_like(shares)
    gate = _product(run, op.gate, op.gate_scales, op.gate_bias, rows, experts)
    up = _product(run, op.up, op.up_scales, op.up_bias, rows, experts)
    hidden = gated(op.activation, gate, up)
    down = _product(run, op.down, op.down_scales, op.down_bias, hidden, experts)
    run.buffers[op.out] = (down[:, :, 0] * shares[..., None]).sum(axis=1)


def _chosen(op: MoeFfn, run: Run) -> tuple[mx.array, mx.array]:
    """Return the experts of each row, ascending, and their weights: [rows, used] each."""
    logits = run.weights[op.router].times(run.buffers[op.router_x or op.x])
    if op.router_bias is not None:
        logits = logits + run.vector(op.router_bias)
    scores = mx.softmax(logits, axis=-1) if op.scoring is Scoring.SOFTMAX else mx.sigmoid(logits)
    rank = scores if op.selection_bias is None else scores + run.vector(op.selection_bias)
    if op.groups > 1:
        rank = _within_best_groups(op, rank)
    experts = mx.sort(_best(rank, op.experts_used), axis=-1)
    shares = mx.take_along_axis(scores, experts, axis=-1)
    if op.normalise:
        shares = shares / shares.sum(axis=-1, keepdims=True)
    return experts, shares * op.scale


def _best(rank: mx.array, count: int) -> mx.array:
    """Return the indices of the largest of each row, of equal ones those with the lower index."""
    return mx.argsort(-rank, axis=-1)[..., :count]


def _within_best_groups(op: MoeFfn, rank: mx.array) -> mx.array:
    """Return the ranks with minus infinity for the experts of groups that are not among the best."""
    groups = rank.reshape(rank.shape[0], op.groups, -1)
    best_two = mx.sort(groups, axis=-1)[..., -2:].sum(axis=-1)
    used = _best(best_two, op.groups_used)
    is_used = (mx.arange(op.groups)[None, :, None] == used[:, None, :]).any(axis=-1)
    return mx.where(is_used[..., None], groups, -mx.inf).reshape(rank.shape)


def _product(
    run: Run, weight: str, scales: tuple[float, ...], bias: str | None, x: mx.array, experts: mx.array
) -> mx.array:
    """Return the products of x [rows, 1 or used, 1, in] with the experts: [rows, used, 1, out]."""
    out = run.weights[weight].gathered(x, experts)
    if scales:
        out = out * mx.array(scales)[experts][..., None, None]
    return out if bias is None else out + run.vector(bias)[experts][:, :, None]
