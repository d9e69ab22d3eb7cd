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

SameFormat = Callable[[str, str], bool]
"""Whether two tensors have the same type, so that one kernel can multiply by both."""


def fuse(ops: Sequence[Op], same_format: SameFormat) -> tuple[Step, ...]:
    """Return the steps of a Program."""
    steps: list[Step] = list(ops)
    _fuse_attention(steps)
    _fuse_gates(steps, same_format)
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
    for index in range(len(steps) - 1, 0, -1):
        add, maker = steps[index], steps[index - 1]
        if not isinstance(add, Add) or add.out not in (add.x, add.y) or add.x == add.y:
            continue
        update = add.y if add.out == add.x else add.x
        if written(maker) != update or is_read_later(steps, index + 1, update):
            continue
        if isinstance(maker, Linear) and _is_plain(maker):
            steps[index - 1 : index + 1] = [AddLinear(add.out, maker.x, maker.weight, maker.bias)]
        elif isinstance(maker, RmsNorm) and maker.heads == 1:
            steps[index - 1 : index + 1] = [NormAdd(add.out, maker.x, maker.weight, maker.eps)]


def _fuse_gates(steps: list[Step], same_format: SameFormat) -> None:
    """Multiply by gate and up together and activate at once."""
    for index in range(len(steps) - 1, 1, -1):
        gated, up, gate = steps[index], steps[index - 1], steps[index - 2]
        if (
            not isinstance(gated, GatedActivation)
            or not isinstance(gate, Linear)
            or not isinstance(up, Linear)
        ):
            continue
        if (gate.out, up.out) != (gated.gate, gated.up) or gate.x != up.x or gate.out in (gate.x, up.out):
            continue
        if gate.bias or up.bias or not (_is_plain(gate) and _is_plain(up)):
            continue
        read_again = any(
            buffer != gated.out and is_read_later(steps, index + 1, buffer) for buffer in (gate.out, up.out)
        )
        if same_format(gate.weight, up.weight) and not read_again:
            fused = GatedLinear(gated.out, gate.x, gate.weight, up.weight, gated.activation)
            steps[index - 2 : index + 1] = [fused]


def _fuse_attention(steps: list[Step]) -> None:
    """Take what is done to the heads of queries and keys into their attention."""
    for index in range(len(steps) - 1, -1, -1):
        attention = steps[index]
        if not isinstance(attention, Attention) or attention.q == attention.k:
            continue
        queries, q_steps = _preparation(steps, index, attention.q)
        keys, k_steps = _preparation(steps, index, attention.k)
        if not _agree(queries, keys) or any(
            is_read_later(steps, index + 1, buffer) for buffer in (attention.q, attention.k)
        ):
            continue
        steps[index] = PreparedAttention(attention, queries, keys)
        for place in sorted((*q_steps, *k_steps), reverse=True):
            del steps[place]


def _preparation(steps: Sequence[Step], end: int, buffer: str) -> tuple[Preparation, list[int]]:
    """Find the norm and the turn of a buffer's heads before `end`, with nothing else touching it in
    between.
    """
    norm: RmsNorm | None = None
    turn: Rotate | None = None
    places: list[int] = []
    for index in range(end - 1, -1, -1):
        step = steps[index]
        if isinstance(step, Rotate) and step.x == buffer and not places:
            turn = step
        elif isinstance(step, RmsNorm) and step.out == step.x == buffer:
            norm = step
        elif buffer in reads(step) or written(step) == buffer:
            break
        else:
            continue
        places.append(index)
        if norm is not None:
            break
    return Preparation(norm, turn.rope if turn else None), places


def _agree(queries: Preparation, keys: Preparation) -> bool:
    """One op turns both alike, and has one epsilon."""
    if queries.rope != keys.rope:
        return False
    return queries.norm is None or keys.norm is None or queries.norm.eps == keys.norm.eps
