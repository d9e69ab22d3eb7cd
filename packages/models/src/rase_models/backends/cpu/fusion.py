"""Turns the ops of a Program into fewer, larger steps that compute the same bits.

Each rule looks at one op and at those near it, and gives up where anything is unusual; what no rule touches
is executed as it is.
"""

from collections.abc import Callable, Sequence

from rase_models.backends.cpu.steps import (
    AddLinear,
    GatedLinear,
    NormAdd,
    Preparation,
    PreparedAttention,
    Step,
    reads,
    written,
)
from rase_models.program import Add, Attention, GatedActivation, Linear, Op, RmsNorm, Rotate

CanBeGated = Callable[[str, str], bool]
"""Whether one kernel can multiply by two tensors, gate and up, and activate."""


def fuse(ops: Sequence[Op], can_be_gated: CanBeGated) -> tuple[Step, ...]:
    """Return the steps of a Program."""
    steps: list[Step] = list(ops)
    _fuse_attention(steps)
    _fuse_gates(steps, can_be_gated)
    _fuse_additions(steps)
    return tuple(steps)


def is_read_later(steps: Sequence[Step], start: int, buffer: str) -> bool:
    """Say whether a step from `start` on reads what the buffer holds before that step."""
    for step in steps[start:]:
        if buffer in reads(step):
            return True
        if written(step) == buffer:
            return False
    return False


def _is_plain(step: Step) -> bool:
    return isinstance(step, Linear) and step.scale == 1.0 and step.bias_scale == 1.0


def _fuse_additions(steps: list[Step]) -> None:
    """Add the result of a linear or of a norm to the residual where it is made."""
    for add in [step for step in steps if isinstance(step, Add)]:
        index = _place(steps, add)
        fused = _added(steps, index, add) if index > 0 else None
        if fused is not None:
            steps[index - 1 : index + 1] = [fused]


def _place(steps: Sequence[Step], wanted: Step) -> int:
    return next(index for index, step in enumerate(steps) if step is wanted)


def _added(steps: Sequence[Step], index: int, add: Add) -> Step | None:
    """Return the step that replaces an addition and the step before it, if there is one."""
    maker = steps[index - 1]
    if add.out not in (add.x, add.y) or add.x == add.y or add.scale != 1.0:
        return None
    update = add.y if add.out == add.x else add.x
    if written(maker) != update or is_read_later(steps, index + 1, update):
        return None
    if add.out in reads(maker):  # other threads still read what would be overwritten
        return None
    if isinstance(maker, Linear) and _is_plain(maker):
        return AddLinear(add.out, maker.x, maker.weight, maker.bias)
    if isinstance(maker, RmsNorm) and maker.heads == 1:
        return NormAdd(add.out, maker.x, maker.weight, maker.eps)
    return None


def _fuse_gates(steps: list[Step], can_be_gated: CanBeGated) -> None:
    """Multiply by gate and up together and activate at once."""
    for gated in [step for step in steps if isinstance(step, GatedActivation)]:
        index = _place(steps, gated)
        fused = _gated(steps, index, gated, can_be_gated) if index > 1 else None
        if fused is not None:
            steps[index - 2 : index + 1] = [fused]


def _gated(
    steps: Sequence[Step], index: int, gated: GatedActivation, can_be_gated: CanBeGated
) -> GatedLinear | None:
    """Return the step that replaces an activation and the two linears before it, if there is one."""
    gate, up = steps[index - 2], steps[index - 1]
    if not isinstance(gate, Linear) or not isinstance(up, Linear) or gate.bias or up.bias:
        return None
    if (
        (gate.out, up.out) != (gated.gate, gated.up)
        or gate.x != up.x
        or gate.x in (gate.out, up.out, gated.out)
    ):
        return None
    others = {gate.out, up.out} - {gated.out}
    if len({gate.out, up.out}) < 2 or any(is_read_later(steps, index + 1, other) for other in others):
        return None
    if not (_is_plain(gate) and _is_plain(up) and can_be_gated(gate.weight, up.weight)):
        return None
    return GatedLinear(gated.out, gate.x, gate.weight, up.weight, gated.activation)


def _fuse_attention(steps: list[Step]) -> None:
    """Take what is done to the heads of queries and keys into their attention."""
    for attention in [step for step in steps if isinstance(step, Attention)]:
        index = _place(steps, attention)
        if attention.k is None or attention.v is None:
            continue
        queries, q_places = _preparation(steps, index, attention.q, attention.head_count)
        keys, k_places = _preparation(steps, index, attention.k, attention.head_count_kv)
        inputs = {attention.q, attention.k, attention.v}
        read_again = any(is_read_later(steps, index + 1, name) for name in (attention.q, attention.k))
        if len(inputs) < 3 or read_again or not _agree(queries, keys):
            continue
        steps[index] = PreparedAttention(attention, attention.k, attention.v, queries, keys)
        for place in sorted((*q_places, *k_places), reverse=True):
            del steps[place]


def _preparation(steps: Sequence[Step], end: int, buffer: str, heads: int) -> tuple[Preparation, list[int]]:
    """Find the norm and the turn of a buffer's heads before `end`, if nothing else touches it."""
    norm: RmsNorm | None = None
    turn: Rotate | None = None
    places: list[int] = []
    for index in range(end - 1, -1, -1):
        step = steps[index]
        if isinstance(step, Rotate) and step.x == buffer and not places:
            turn = step
        elif isinstance(step, RmsNorm) and step.out == step.x == buffer and _is_of_heads(step, heads):
            norm = step
        elif buffer in reads(step) or written(step) == buffer:
            break
        else:
            continue
        places.append(index)
        if norm is not None:
            break
    return Preparation(norm, turn.rope if turn else None), places


def _is_of_heads(norm: RmsNorm, heads: int) -> bool:
    return norm.heads == heads and norm.shared


def _agree(queries: Preparation, keys: Preparation) -> bool:
    """One op turns both alike, and has one epsilon."""
    if queries.rope != keys.rope:
        return False
    return queries.norm is None or keys.norm is None or queries.norm.eps == keys.norm.eps
