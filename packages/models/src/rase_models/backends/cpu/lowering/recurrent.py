"""Ops that carry a state from one row of a sequence to the next."""

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.buffers import LANES, padded
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource
from rase_models.program import GatedDelta, ShortConv, StateScan


def emit_short_conv(low: Lowering, step: ShortConv) -> None:
    width = padded(low.buffers.width(step.x))
    words = low.floats_in(step.x) | {abi.N: width, abi.TAPS: step.taps}
    words |= {abi.W: _taps(low, step, width), abi.BIAS: low.vector(step.bias) if step.bias else 0}
    words[abi.STATE_OFFSET] = low.take_state((step.taps - 1) * width)
    _emit(low, KernelKey("short_conv"), step, words, [("floats", step.x)])


def _taps(low: Lowering, step: ShortConv, width: int) -> int:
    """Place the weights, which a file has channel by channel, tap by tap; returns their address."""
    channels = low.buffers.width(step.x)
    weights = low.weights.vectors[step.weight][: channels * step.taps].reshape(channels, step.taps)
    memory = low.arena.take(4 * step.taps * width).view(np.float32).reshape(step.taps, width)
    memory[:, :channels] = weights.T
    return int(memory.ctypes.data)


def emit_state_scan(low: Lowering, step: StateScan) -> None:
    width, size = low.buffers.width(step.x) // step.heads, low.buffers.width(step.b) // step.groups
    words = low.floats_in(step.x) | low.floats_in(step.b, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.c, abi.IN_3, abi.IN_3_STRIDE)
    words |= {abi.W: low.vector(step.decay), abi.BIAS: low.vector(step.skip), abi.KEY_HEADS: step.groups}
    reads: list[Resource] = [("floats", name) for name in (step.x, step.b, step.c, step.step)]
    _emit_scan(low, KernelKey("state_scan"), step, words, reads, (width, size))


def emit_gated_delta(low: Lowering, step: GatedDelta) -> None:
    width, size = low.buffers.width(step.v) // step.heads, low.buffers.width(step.k) // step.key_heads
    if size % LANES != 0:
        raise BackendFailure(
            f"the CPU backend cannot run a delta rule with keys of {size} values",
            f"it needs multiples of {LANES}",
        )
    words = low.floats_in(step.v) | low.floats_in(step.q, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.k, abi.IN_3, abi.IN_3_STRIDE)
    words |= low.floats_in(step.beta, abi.BETAS, abi.BETAS_STRIDE)
    words |= {abi.W: low.vector(step.decay), abi.KEY_HEADS: step.key_heads, abi.EPSILON: step.eps}
    inputs = (step.q, step.k, step.v, step.step, step.beta)
    reads: list[Resource] = [("floats", name) for name in inputs]
    _emit_scan(low, KernelKey("gated_delta"), step, words, reads, (width, size))


def _emit_scan(
    low: Lowering,
    kernel: KernelKey,
    step: StateScan | GatedDelta,
    words: Words,
    reads: list[Resource],
    sizes: tuple[int, int],
) -> None:
    width, size = sizes
    if width % LANES != 0:
        raise BackendFailure(
            f"the CPU backend cannot scan heads of {width} values", f"it needs multiples of {LANES}"
        )
    words |= low.floats_in(step.step, abi.STEP_SIZES, abi.STEP_SIZES_STRIDE)
    words |= {abi.HEADS: step.heads, abi.N: width, abi.K: size}
    words[abi.STATE_OFFSET] = low.take_state(step.heads * width * size)
    _emit(low, kernel, step, words, reads)


def _emit(
    low: Lowering,
    kernel: KernelKey,
    step: ShortConv | StateScan | GatedDelta,
    words: Words,
    reads: list[Resource],
) -> None:
    state: Resource = ("state", step.state)
    outputs, flags = low.floats_out(step.out)
    low.emit(kernel, words | outputs, [*reads, state], [("floats", step.out), state], flags)
    low.quantise_if_wanted(step.out)
