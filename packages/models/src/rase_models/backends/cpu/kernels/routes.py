"""Which experts a row goes to, and which rows an expert gets."""

import math
from typing import Any

from rase_models.backends.cpu.abi import (
    CHOSEN,
    COUNTS,
    EXPERT_GROUPS,
    EXPERT_GROUPS_USED,
    EXPERTS,
    EXPERTS_USED,
    GROUP_BYTES,
    GROUP_COUNT,
    GROUP_EXPERT,
    GROUP_FIRST_SLOT,
    GROUP_ROWS,
    GROUPS,
    NORMALISE,
    ROUTES,
    ROW_SLOTS,
    SCALE,
    SCORING_SIGMOID,
    SELECTION_BIAS,
    SHARES,
)
from rase_models.backends.cpu.activations import PANEL_ROWS
from rase_models.backends.cpu.kernels.claims import claim, finish, share
from rase_models.backends.cpu.kernels.rows import input_row, row_count, scratch
from rase_models.backends.cpu.simd import (
    compiled,
    exp_f32,
    f32,
    load_f32,
    load_i32,
    load_i64,
    store_f32,
    store_i32,
    store_i64,
)


@compiled
def route_array(op: int, array: int) -> int:
    """Return the address of one of the arrays of the routes."""
    return int(load_i64(load_i64(op + ROUTES) + array))


@compiled
def _soften(logits: int, experts: int) -> None:
    """Replace logits by their softmax."""
    most, total = load_f32(logits), f32(0.0)
    for expert in range(experts):
        most = max(most, load_f32(logits + 4 * expert))
    for expert in range(experts):
        share_ = exp_f32(load_f32(logits + 4 * expert) - most)
        store_f32(logits + 4 * expert, share_)
        total += share_
    for expert in range(experts):
        store_f32(logits + 4 * expert, load_f32(logits + 4 * expert) / total)


@compiled
def _following(shares: int, experts: int, previous: int) -> int:
    """Return the expert after `previous` by share, the lower index first among equals; -1 begins."""
    best = -1
    for expert in range(experts):
        value = load_f32(shares + 4 * expert)
        if previous >= 0:
            limit = load_f32(shares + 4 * previous)
            if value > limit or (value == limit and expert <= previous):
                continue
        if best < 0 or value > load_f32(shares + 4 * best):
            best = expert
    return max(best, 0)  # not-a-number compares with nothing; the output will not be a number either


@compiled
def _insert(chosen: int, count: int, expert: int) -> None:
    """Insert an expert into an ascending list of `count`."""
    place = count
    while place > 0 and int(load_i32(chosen + 4 * (place - 1))) > expert:
        store_i32(chosen + 4 * place, load_i32(chosen + 4 * (place - 1)))
        place -= 1
    store_i32(chosen + 4 * place, expert)


@compiled
def _squash(logits: int, experts: int) -> None:
    """Replace logits by their sigmoids."""
    for expert in range(experts):
        denominator = f32(1.0) + exp_f32(-load_f32(logits + 4 * expert))
        store_f32(logits + 4 * expert, f32(1.0) / denominator)


@compiled
def _sum_of_best_two(ranks: int, first: int, count: int) -> Any:
    best = _following(ranks + 4 * first, count, -1)
    total = load_f32(ranks + 4 * (first + best))
    if count > 1:
        total += load_f32(ranks + 4 * (first + _following(ranks + 4 * first, count, best)))
    return total


@compiled
def _close_groups(ranks: int, experts: int, groups: int, used: int, memory: int) -> None:
    """Set the ranks of the experts outside the best groups to minus infinity."""
    count, sums, kept = experts // groups, memory, memory + 4 * groups
    for group in range(groups):
        store_f32(sums + 4 * group, _sum_of_best_two(ranks, group * count, count))
        store_i32(kept + 4 * group, 0)
    group = -1
    for _ in range(used):
        group = _following(sums, groups, group)
        store_i32(kept + 4 * group, 1)
    for expert in range(experts):
        if int(load_i32(kept + 4 * (expert // count))) == 0:
            store_f32(ranks + 4 * expert, f32(-math.inf))


@compiled
def _rank(op: int, scores: int, ranks: int) -> None:
    """Write what the choice among experts goes by."""
    experts, bias = load_i64(op + EXPERTS), load_i64(op + SELECTION_BIAS)
    groups = load_i64(op + EXPERT_GROUPS)
    for expert in range(experts):
        rank = load_f32(scores + 4 * expert)
        if bias != 0:
            rank += load_f32(bias + 4 * expert)
        store_f32(ranks + 4 * expert, rank)
    if groups > 1:
        _close_groups(ranks, experts, groups, load_i64(op + EXPERT_GROUPS_USED), ranks + 4 * experts)


@compiled
def _choose(thread: int, op: int, context: int, row: int) -> None:
    """Choose the experts of a row, whose router logits are X, and their weights."""
    experts, used = load_i64(op + EXPERTS), load_i64(op + EXPERTS_USED)
    shares = input_row(op, context, row)
    chosen = route_array(op, CHOSEN) + 4 * used * row
    weights = route_array(op, SHARES) + 4 * used * row
    if load_i64(op + SCORING_SIGMOID):
        _squash(shares, experts)
    else:
        _soften(shares, experts)
    ranks = scratch(thread, context)
    _rank(op, shares, ranks)
    expert, total = -1, f32(0.0)
    for count in range(used):
        expert = _following(ranks, experts, expert)
        _insert(chosen, count, expert)
    for index in range(used):
        total += load_f32(shares + 4 * int(load_i32(chosen + 4 * index)))
    divisor = total if load_i64(op + NORMALISE) else f32(1.0)
    for index in range(used):
        weight = load_f32(shares + 4 * int(load_i32(chosen + 4 * index))) / divisor
        store_f32(weights + 4 * index, weight * load_f32(op + SCALE))


def choose_experts() -> Any:
    """Build the kernel that chooses every row's experts by the router's logits X, which it overwrites."""
    return share(row_count, _choose, 4)


@compiled
def _count_rows(chosen: int, entries: int, counts: int, experts: int) -> None:
    for expert in range(experts):
        store_i64(counts + 8 * expert, 0)
    for entry in range(entries):
        count = counts + 8 * int(load_i32(chosen + 4 * entry))
        store_i64(count, load_i64(count) + 1)


@compiled
def _write_groups(groups: int, counts: int, experts: int) -> int:
    """Write the groups, and turn each count into its expert's first slot; returns the number of groups."""
    group, slot = groups, 0
    for expert in range(experts):
        rows = load_i64(counts + 8 * expert)
        store_i64(counts + 8 * expert, slot)
        if rows > 0:
            store_i64(group + GROUP_EXPERT, expert)
            store_i64(group + GROUP_FIRST_SLOT, slot)
            store_i64(group + GROUP_ROWS, rows)
            group += GROUP_BYTES
            slot += (rows + PANEL_ROWS - 1) & ~(PANEL_ROWS - 1)
    return (group - groups) // GROUP_BYTES


def group_rows() -> Any:
    """Build the kernel that groups rows by their experts, in one thread."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if claim(thread, op, context, 1) < 0:
            return
        experts, entries = load_i64(op + EXPERTS), row_count(op, context) * load_i64(op + EXPERTS_USED)
        chosen, slots, counts = route_array(op, CHOSEN), route_array(op, ROW_SLOTS), route_array(op, COUNTS)
        _count_rows(chosen, entries, counts, experts)
        groups = _write_groups(route_array(op, GROUPS), counts, experts)
        store_i64(load_i64(op + ROUTES) + GROUP_COUNT, groups)
        for entry in range(entries):
            following = counts + 8 * int(load_i32(chosen + 4 * entry))
            store_i32(slots + 4 * entry, load_i64(following))
            store_i64(following, load_i64(following) + 1)
        finish(op, 1)

    return kernel
