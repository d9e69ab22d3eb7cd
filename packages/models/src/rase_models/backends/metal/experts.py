"""Mixtures of experts: which experts a row gets, and their products."""

from dataclasses import dataclass

import mlx.core as mx

from rase_models.backends.metal.activations import GATES
from rase_models.backends.metal.run import Run
from rase_models.program import MoeFfn, Scoring

_WORTH_SORTING = 64  # products


def moe_ffn(op: MoeFfn, run: Run) -> None:
    experts, shares = _chosen(op, run)
    mix = _mixed_by_expert if experts.size >= _WORTH_SORTING else _mixed
    run.buffers[op.out] = mix(op, run, run.buffers[op.x], experts, shares).sum(axis=1)


def _mixed_by_expert(op: MoeFfn, run: Run, x: mx.array, experts: mx.array, shares: mx.array) -> mx.array:
    """Do the same for the rows of one expert after those of another, so that each is read once."""
    used = experts.shape[1]
    order = mx.argsort(experts.reshape(-1))
    by_expert = (x[order // used], experts.reshape(-1, 1)[order], shares.reshape(-1, 1)[order])
    outs = _mixed(op, run, *by_expert, is_sorted=True)
    return outs[mx.argsort(order)].reshape(*experts.shape, -1)


def _mixed(
    op: MoeFfn, run: Run, x: mx.array, experts: mx.array, shares: mx.array, *, is_sorted: bool = False
) -> mx.array:
    """Return what the experts make of rows, by their shares: [rows, used, out]."""
    rows = x[:, None, None, :]
    if op.weighs_inputs:
        rows, shares = rows * shares[..., None, None], mx.ones_like(shares)
    chosen = _Chosen(run, experts, is_sorted)
    gate = chosen.product(op.gate, op.gate_scales, op.gate_bias, rows)
    up = gate if op.multiplies_once else chosen.product(op.up, op.up_scales, op.up_bias, rows)
    down = chosen.product(op.down, op.down_scales, op.down_bias, GATES[op.activation](gate, up))
    return down[:, :, 0] * shares[..., None]


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


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The experts of rows, [rows, used]; `is_sorted` if they are all in ascending order."""

    run: Run
    experts: mx.array
    is_sorted: bool

    def product(self, weight: str, scales: tuple[float, ...], bias: str | None, x: mx.array) -> mx.array:
        """Return the products of x [rows, 1 or used, 1, in] with the experts: [rows, used, 1, out]."""
        out = self.run.weights[weight].gathered(x, self.experts, is_sorted=self.is_sorted)
        if scales:
            out = out * mx.array(scales)[self.experts][..., None, None]
        return out if bias is None else out + self.run.vector(bias)[self.experts][:, :, None]
