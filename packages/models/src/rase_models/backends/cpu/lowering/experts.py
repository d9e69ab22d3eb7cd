"""Feed-forward networks of experts."""

from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.buffers import LANES, padded
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.expert_memory import ExpertMemory
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource
from rase_models.program import MoeFfn, Scoring

_PAIR = 32
"""Outputs that a gated multiplication makes at a time."""
_ROUTES: Resource = ("routes", None)
_GATHERED: Resource = ("slots", "gathered")
_GATHERED_RECORDS: Resource = ("slots", "gathered records")
_HIDDEN: Resource = ("slots", "hidden")
_RESULTS: Resource = ("slots", "results")
_LOGITS: Resource = ("slots", "logits")


def emit_moe_ffn(low: Lowering, step: MoeFfn) -> None:
    """Emit routing, the three multiplications of the experts, and the sum of their results."""
    _check_sizes(low, step)
    memory = low.expert_memory(step)
    routing: Words = {
        abi.ROUTES: memory.routes,
        abi.EXPERTS: step.experts,
        abi.EXPERTS_USED: step.experts_used,
        abi.WEIGHS_INPUTS: int(step.weighs_inputs),
    }
    _emit_routes(low, step, memory, routing)
    _emit_gather(low, step, memory, routing)
    _emit_gated(low, step, memory, routing)
    _emit_down(low, step, memory, routing)
    _emit_sum(low, step, memory, routing)


def _check_sizes(low: Lowering, step: MoeFfn) -> None:
    hidden = low.matrix(step.gate).rows
    if hidden % _PAIR != 0:
        raise BackendFailure(
            f"the CPU backend cannot run experts of {hidden} hidden values", f"it needs multiples of {_PAIR}"
        )
    width = low.matrix(step.down).rows
    if step.down_bias is not None and width % LANES != 0:
        raise BackendFailure(
            f"the CPU backend cannot add biases to experts of {width} values",
            f"it needs multiples of {LANES}",
        )


def _emit_routes(low: Lowering, step: MoeFfn, memory: ExpertMemory, routing: Words) -> None:
    router, logits = low.matrix(step.router), memory.rows.floats("logits")
    inputs, reads, flags = low.matrix_input(step.router_x or step.x, step.router)
    words = inputs | {
        abi.Y: logits.address,
        abi.Y_STRIDE: logits.stride,
        abi.W: router.address,
        abi.K: router.columns,
        abi.N: router.rows,
        abi.SCALE: 1.0,
        abi.BIAS: _optional_vector(low, step.router_bias),
    }
    low.emit(KernelKey("linear", (router.form.name,)), words, reads, [_LOGITS], flags)
    words = routing | {abi.X: logits.address, abi.X_STRIDE: logits.stride}
    words |= {abi.SCALE: step.scale, abi.NORMALISE: int(step.normalise)}
    words |= {abi.EXPERT_GROUPS: step.groups, abi.EXPERT_GROUPS_USED: step.groups_used}
    words[abi.SCORING_SIGMOID] = int(step.scoring is Scoring.SIGMOID)
    words[abi.SELECTION_BIAS] = _optional_vector(low, step.selection_bias)
    low.need_scratch(4 * (step.experts + 2 * step.groups))
    low.emit(KernelKey("choose_experts"), words, [_LOGITS], [_LOGITS, _ROUTES])
    low.emit(KernelKey("group_rows"), routing, [_ROUTES], [_ROUTES])


def _emit_gather(low: Lowering, step: MoeFfn, memory: ExpertMemory, routing: Words) -> None:
    """Emit the copies of rows to their slots, in each form that gate or up reads."""
    words = routing | low.floats_in(step.x) | {abi.N: low.buffers.width(step.x)}
    reads: list[Resource] = [_ROUTES, ("floats", step.x)]
    low.need_scratch(4 * padded(low.buffers.width(step.x)))
    forms = {low.matrix(weight).form.is_quantised for weight in (step.gate, step.up)}
    if False in forms:
        target = memory.slots.floats("gathered")
        to_floats = {abi.Y: target.address, abi.Y_STRIDE: target.stride}
        low.emit(KernelKey("gather_experts"), words | to_floats, reads, [_GATHERED])
    if True in forms:
        to_records = {abi.RECORDS: memory.slots.records("gathered").address}
        flags = abi.WRITE_RECORDS
        low.emit(KernelKey("gather_experts"), words | to_records, reads, [_GATHERED_RECORDS], flags)


def _slot_input(low: Lowering, memory: ExpertMemory, name: str, *weights: str) -> Words:
    """Return the words for input from slots, in each form that the weights need."""
    words: Words = {abi.X: 0, abi.X_STRIDE: 0}
    for weight in weights:
        if low.matrix(weight).form.is_quantised:
            words[abi.RECORDS] = memory.slots.records(name).address
        else:
            source = memory.slots.floats(name)
            words |= {abi.X: source.address, abi.X_STRIDE: source.stride}
    return words


def _emit_gated(low: Lowering, step: MoeFfn, memory: ExpertMemory, routing: Words) -> None:
    gate, up = low.matrix(step.gate), low.matrix(step.up)
    words = routing | _slot_input(low, memory, "gathered", step.gate, step.up)
    words |= {abi.W: gate.address, abi.W2: up.address, abi.K: gate.columns, abi.N: gate.rows}
    words |= {abi.EXPERT_NBYTES: gate.expert_nbytes, abi.EXPERT_NBYTES_2: up.expert_nbytes}
    words |= {
        abi.EXPERT_SCALES: low.constants(step.gate_scales),
        abi.EXPERT_SCALES_2: low.constants(step.up_scales),
        abi.EXPERT_BIAS: _optional_vector(low, step.gate_bias),
        abi.EXPERT_BIAS_2: _optional_vector(low, step.up_bias),
    }
    as_records = low.matrix(step.down).form.is_quantised
    if as_records:
        words[abi.OUTPUT_RECORDS] = memory.slots.records("hidden").address
    else:
        target = memory.slots.floats("hidden")
        words |= {abi.Y: target.address, abi.Y_STRIDE: target.stride}
    reads = [_ROUTES, _GATHERED, _GATHERED_RECORDS]
    parameters = (gate.form.name, up.form.name, step.activation.value, int(as_records))
    kernel = KernelKey("gated_experts", (*parameters, 1) if step.multiplies_once else parameters)
    low.emit(kernel, words, reads, [_HIDDEN])


def _emit_down(low: Lowering, step: MoeFfn, memory: ExpertMemory, routing: Words) -> None:
    down, target = low.matrix(step.down), memory.slots.floats("results")
    words = routing | _slot_input(low, memory, "hidden", step.down)
    words |= {abi.W: down.address, abi.K: down.columns, abi.N: down.rows}
    words |= {abi.EXPERT_NBYTES: down.expert_nbytes, abi.Y: target.address, abi.Y_STRIDE: target.stride}
    low.emit(KernelKey("expert_linear", (down.form.name,)), words, [_ROUTES, _HIDDEN], [_RESULTS])


def _emit_sum(low: Lowering, step: MoeFfn, memory: ExpertMemory, routing: Words) -> None:
    source = memory.slots.floats("results")
    outputs, flags = low.floats_out(step.out)
    words = routing | outputs | {abi.X: source.address, abi.X_STRIDE: source.stride}
    words |= {abi.N: low.buffers.width(step.out), abi.EXPERT_SCALES: low.constants(step.down_scales)}
    words[abi.EXPERT_BIAS] = _optional_vector(low, step.down_bias)
    low.emit(KernelKey("combine_experts"), words, [_ROUTES, _RESULTS], [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def _optional_vector(low: Lowering, name: str | None) -> int:
    return 0 if name is None else low.vector(name)
