"""Ops that mix buffers value by value, or by weights that a run has computed."""

import numpy as np
from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.buffers import LANES
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource
from rase_models.program import AddDots, Blend, Clamp, MixParts, Rescale, Scale, Sparsify, Xielu

_Mixing = AddDots | Blend | Clamp | MixParts | Rescale | Scale | Sparsify | Xielu


def emit_scale(low: Lowering, step: Scale) -> None:
    words = low.floats_in(step.x) | {abi.SCALE: step.factor, abi.W: 0}
    if step.weight is not None:
        words[abi.W] = _whole_row(low, step.weight, low.buffers.width(step.x), step.parts)
    _emit(low, step, words, (step.x,))


def _whole_row(low: Lowering, name: str, width: int, parts: int | None) -> int:
    """Return the address of a vector, value by value, that may have one for each part of a row."""
    if parts is None:
        return low.vector(name)
    values = low.weights.vectors[name].reshape(-1)[:parts]
    return low.constants(np.repeat(values, width // parts).tolist())


def emit_blend(low: Lowering, step: Blend) -> None:
    width = low.buffers.width(step.x)
    parts = low.buffers.width(step.out) // width
    words = low.floats_in(step.x) | low.floats_in(step.y, abi.IN_2, abi.IN_2_STRIDE)
    words |= {abi.W: low.vector(step.weight) if step.weight else 0, abi.IN_3: 0}
    if step.gate is not None:
        words |= low.floats_in(step.gate, abi.IN_3, abi.IN_3_STRIDE)
    inputs = (step.x, step.y) if step.gate is None else (step.x, step.y, step.gate)
    _emit(low, step, words | _parts(step, parts, width), inputs)


def emit_mix_parts(low: Lowering, step: MixParts) -> None:
    outs, ins = (low.buffers.width(name) // step.length for name in (step.out, step.x))
    words = low.floats_in(step.x) | low.floats_in(step.base, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.weights, abi.W, abi.W_STRIDE)
    words |= {abi.KEY_HEADS: ins, abi.EPSILON: float(step.offset)}
    _emit(
        low, step, words | _parts(step, max(outs, ins), step.length, outs), (step.x, step.weights, step.base)
    )


def emit_rescale(low: Lowering, step: Rescale) -> None:
    width = low.buffers.width(step.like)
    words = low.floats_in(step.x) | low.floats_in(step.like, abi.IN_2, abi.IN_2_STRIDE)
    words |= _parts(step, step.heads, width) | {abi.EPSILON: step.eps}
    _emit(low, step, words, (step.x, step.like), vectors_of=width)


def emit_sparsify(low: Lowering, step: Sparsify) -> None:
    words = low.floats_in(step.x) | {abi.SCALE: step.deviations}
    _emit(low, step, words, (step.x,), vectors_of=low.buffers.width(step.x))


def emit_xielu(low: Lowering, step: Xielu) -> None:
    bends = {abi.ABOVE: step.above, abi.BELOW: step.below, abi.SLOPE: step.slope}
    _emit(low, step, low.floats_in(step.x) | bends, (step.x,))


def emit_clamp(low: Lowering, step: Clamp) -> None:
    _emit(low, step, low.floats_in(step.x) | {abi.ABOVE: step.limit}, (step.x,))


def emit_add_dots(low: Lowering, step: AddDots) -> None:
    width = low.buffers.width(step.x) // step.heads
    words = low.floats_in(step.x) | low.floats_in(step.q, abi.IN_2, abi.IN_2_STRIDE)
    words |= low.floats_in(step.k, abi.IN_3, abi.IN_3_STRIDE)
    words |= low.floats_in(step.v, abi.BETAS, abi.BETAS_STRIDE)
    words |= _parts(step, step.heads, width) | {abi.W: low.vector(step.weight)}
    _emit(low, step, words, (step.x, step.q, step.k, step.v), vectors_of=width)


def _parts(step: _Mixing, parts: int, width: int, written: int | None = None) -> Words:
    """Return the words for equal parts of rows, of which several must be whole vectors."""
    if parts > 1:
        _check_vectors(step, width)
    return {abi.HEADS: parts if written is None else written, abi.K: width}


def _check_vectors(step: _Mixing, width: int) -> None:
    if width % LANES != 0:
        raise BackendFailure(
            f"the CPU backend cannot run {type(step).__name__} on {width} values",
            f"it needs multiples of {LANES}",
        )


def _emit(
    low: Lowering, step: _Mixing, words: Words, inputs: tuple[str, ...], *, vectors_of: int = 0
) -> None:
    """Append a row; kernels that sum over `vectors_of` values read whole vectors of them."""
    _check_vectors(step, vectors_of)
    outputs, flags = low.floats_out(step.out)
    words |= outputs | {abi.N: low.buffers.width(step.out)}
    reads: list[Resource] = [("floats", name) for name in inputs]
    low.emit(KernelKey(_KERNELS[type(step)]), words, reads, [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


_KERNELS = {
    AddDots: "add_dots",
    Blend: "blend",
    Clamp: "clamp",
    MixParts: "mix_parts",
    Rescale: "rescale",
    Scale: "scale",
    Sparsify: "sparsify",
    Xielu: "xielu",
}
