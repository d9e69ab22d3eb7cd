"""Multiplications by matrices."""

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.activations import RECORD_COLUMNS
from rase_models.backends.cpu.formats.packed_format import GROUP_ROWS
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.steps import AddLinear, GatedLinear
from rase_models.program import HeadLinear, Linear


def _multiply(low: Lowering, step: Linear | AddLinear, words: Words, accumulate: bool) -> None:
    matrix = low.matrix(step.weight)
    inputs, reads, input_flags = low.matrix_input(step.x, step.weight)
    outputs, output_flags = low.floats_out(step.out)
    words |= inputs | outputs | {abi.W: matrix.address, abi.K: matrix.columns, abi.N: matrix.rows}
    flags = input_flags | output_flags
    if accumulate:
        flags |= abi.ACCUMULATE
        reads = [*reads, ("floats", step.out)]
    key = KernelKey("linear", (matrix.form.name,))
    low.emit(key, words, reads, [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def emit_linear(low: Lowering, step: Linear) -> None:
    words: Words = {abi.SCALE: step.scale, abi.BIAS: 0}
    if step.bias is not None:
        words[abi.BIAS] = _scaled_bias(low, step.bias, step.bias_scale)
    _multiply(low, step, words, accumulate=False)


def emit_add_linear(low: Lowering, step: AddLinear) -> None:
    bias = low.vector(step.bias) if step.bias is not None else 0
    _multiply(low, step, {abi.SCALE: 1.0, abi.BIAS: bias}, accumulate=True)


def _scaled_bias(low: Lowering, name: str, scale: float) -> int:
    if scale == 1.0:
        return low.vector(name)
    bias = low.weights.vectors[name]
    scaled = low.arena.take(bias.nbytes).view(np.float32)
    np.multiply(bias, np.float32(scale), out=scaled)
    return int(scaled.ctypes.data)


def emit_head_linear(low: Lowering, step: HeadLinear) -> None:
    matrix = low.matrix(step.weight)
    _check_heads(low, step)
    inputs, reads, flags = low.matrix_input(step.x, step.weight)
    outputs, output_flags = low.floats_out(step.out)
    words = inputs | outputs | {abi.W: matrix.address, abi.EXPERT_NBYTES: matrix.expert_nbytes}
    words |= {abi.HEADS: step.heads, abi.K: matrix.columns, abi.N: matrix.rows}
    key = KernelKey("head_linear", (matrix.form.name,))
    low.emit(key, words, reads, [("floats", step.out)], flags | output_flags)
    low.quantise_if_wanted(step.out)


def _check_heads(low: Lowering, step: HeadLinear) -> None:
    matrix = low.matrix(step.weight)
    if matrix.rows % GROUP_ROWS != 0 or (matrix.form.is_quantised and matrix.columns % RECORD_COLUMNS != 0):
        raise BackendFailure(
            f"the CPU backend cannot multiply heads of {matrix.columns} values into {matrix.rows}",
            f"it needs multiples of {RECORD_COLUMNS} and {GROUP_ROWS}",
        )


def emit_gated_linear(low: Lowering, step: GatedLinear) -> None:
    gate, up = low.matrix(step.gate), low.matrix(step.up)
    inputs, reads, input_flags = low.matrix_input(step.x, step.gate)
    outputs, writes, flags = low.values_out(step.out)
    if abi.RECORDS in outputs:
        outputs[abi.OUTPUT_RECORDS] = outputs.pop(abi.RECORDS)
        outputs.pop(abi.PRIVATE_OFFSET)
    words = (
        inputs | outputs | {abi.W: gate.address, abi.W2: up.address, abi.K: gate.columns, abi.N: gate.rows}
    )
    key = KernelKey("gated_linear", (gate.form.name, step.activation.value))
    low.emit(key, words, reads, writes, flags | input_flags)
