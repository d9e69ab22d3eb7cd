"""Ops that shift rows, scan channels, or keep a matrix of keys and values along a sequence."""

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.buffers import LANES, padded
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource
from rase_models.program import KeyedScan, SelectiveScan, Shift

_TAPS = 2


def emit_shift(low: Lowering, step: Shift) -> None:
    """Shift by a convolution that takes all of the row before and nothing of its own."""
    width = padded(low.buffers.width(step.x))
    words = low.floats_in(step.x) | {abi.N: width, abi.TAPS: _TAPS, abi.BIAS: 0}
    words[abi.W] = low.constants((1.0,) * width + (0.0,) * width)
    words[abi.STATE_OFFSET] = low.take_state(width)
    _emit(low, KernelKey("short_conv"), step, words, (step.x,))


def emit_selective_scan(low: Lowering, step: SelectiveScan) -> None:
    channels, size = low.buffers.width(step.x), low.buffers.width(step.b)
    width = padded(channels)
    words = low.floats_in(step.x) | low.floats_in(step.b, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.c, abi.IN_3, abi.IN_3_STRIDE)
    words |= low.floats_in(step.step, abi.STEP_SIZES, abi.STEP_SIZES_STRIDE)
    words |= {abi.N: width, abi.K: size, abi.W: _decays(low, step, size), abi.BIAS: low.vector(step.skip)}
    words[abi.STATE_OFFSET] = low.take_state(size * width)
    _emit(low, KernelKey("selective_scan"), step, words, (step.x, step.b, step.c, step.step))


def _decays(low: Lowering, step: SelectiveScan, size: int) -> int:
    """Place the decays, which a file has channel by channel, place by place; returns their address."""
    channels = low.buffers.width(step.x)
    decays = low.weights.vectors[step.decay].reshape(-1)[: channels * size].reshape(channels, size)
    memory = low.arena.take(4 * size * padded(channels)).view(np.float32).reshape(size, -1)
    memory[:, :channels] = decays.T
    return int(memory.ctypes.data)


def emit_keyed_scan(low: Lowering, step: KeyedScan) -> None:
    width, size = (low.buffers.width(name) // step.heads for name in (step.v, step.k))
    if width % LANES != 0:
        raise BackendFailure(
            f"the CPU backend cannot scan heads of {width} values", f"it needs multiples of {LANES}"
        )
    words = low.floats_in(step.v) | low.floats_in(step.q, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.k, abi.IN_3, abi.IN_3_STRIDE)
    words |= low.floats_in(step.keep, abi.STEP_SIZES, abi.STEP_SIZES_STRIDE)
    inputs: tuple[str, ...] = (step.q, step.k, step.v, step.keep)
    if step.a is not None and step.b is not None:
        words |= low.floats_in(step.a, abi.BETAS, abi.BETAS_STRIDE)
        words |= low.floats_in(step.b, abi.CORRECTIONS, abi.CORRECTIONS_STRIDE)
        inputs = (*inputs, step.a, step.b)
    words |= {abi.HEADS: step.heads, abi.N: width, abi.K: size, abi.SCALE: step.scale}
    words[abi.STATE_OFFSET] = low.take_state(step.heads * width * size)
    key = KernelKey("keyed_scan", (int(step.a is not None), int(step.reads_before)))
    _emit(low, key, step, words, inputs)


def _emit(
    low: Lowering,
    kernel: KernelKey,
    step: Shift | SelectiveScan | KeyedScan,
    words: Words,
    inputs: tuple[str, ...],
) -> None:
    state: Resource = ("state", step.state)
    reads: list[Resource] = [("floats", name) for name in inputs]
    outputs, flags = low.floats_out(step.out)
    low.emit(kernel, words | outputs, [*reads, state], [("floats", step.out), state], flags)
    low.quantise_if_wanted(step.out)
