"""Ops on rows: lookups, norms, activations, sums, selections."""

from rase_core.errors import BackendFailure

from rase_models.backends.cpu import abi
from rase_models.backends.cpu.buffers import padded
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.lowering.lowering import Lowering, Words
from rase_models.backends.cpu.op_table import Resource
from rase_models.backends.cpu.steps import NormAdd
from rase_models.program import (
    Activate,
    Add,
    CopyParts,
    Embed,
    GatedActivation,
    LayerNorm,
    RmsNorm,
    SelectOutputs,
    SoftCap,
)


def emit_embed(low: Lowering, step: Embed) -> None:
    matrix = low.matrix(step.weight)
    words, writes, flags = low.values_out(step.out)
    words |= {abi.W: matrix.address, abi.K: matrix.columns, abi.SCALE: step.scale}
    low.need_scratch(4 * padded(matrix.columns))
    parameters = (matrix.form.name, int(step.by_position))
    low.emit(KernelKey("embed", parameters), words, [], writes, flags)


def _norm_words(low: Lowering, x: str, weight: str | None, eps: float, heads: int) -> Words:
    width = low.buffers.width(x) // heads
    if heads > 1 and width % 16 != 0:
        raise BackendFailure(
            f"the CPU backend cannot norm heads of {width} values", "it needs multiples of 16"
        )
    low.need_scratch(4 * padded(width))
    words = {abi.W: low.norm_weight(weight, width), abi.K: width, abi.EPSILON: eps, abi.HEADS: heads}
    return low.floats_in(x) | words


def emit_rms_norm(low: Lowering, step: RmsNorm) -> None:
    _emit_norm(low, step, KernelKey("rms_norm"), {})


def emit_layer_norm(low: Lowering, step: LayerNorm) -> None:
    _emit_norm(low, step, KernelKey("layer_norm"), {abi.BIAS: low.vector(step.bias) if step.bias else 0})


def _emit_norm(low: Lowering, step: RmsNorm | LayerNorm, kernel: KernelKey, more: Words) -> None:
    words = _norm_words(low, step.x, step.weight, step.eps, step.heads) | more
    if not step.shared:
        words[abi.W_STRIDE] = 4 * (low.buffers.width(step.x) // step.heads)
    in_parts = step.heads > 1
    if in_parts and (low.buffers.width(step.x) // step.heads) % 32 != 0:
        outputs, flags = low.floats_out(step.out)
        outputs[abi.N] = low.buffers.width(step.out)
        writes: list[Resource] = [("floats", step.out)]
        low.emit(kernel, words | outputs, [("floats", step.x)], writes, flags | abi.WRITE_FLOATS)
        low.quantise_if_wanted(step.out)
        return
    source = None if in_parts else step.x
    outputs, writes, flags = low.values_out(step.out, source=source)
    low.emit(kernel, words | outputs, [("floats", step.x)], writes, flags)


def emit_norm_add(low: Lowering, step: NormAdd) -> None:
    words = _norm_words(low, step.x, step.weight, step.eps, 1)
    outputs, flags = low.floats_out(step.out)
    reads: list[Resource] = [("floats", step.x), ("floats", step.out)]
    low.emit(KernelKey("rms_norm"), words | outputs, reads, [("floats", step.out)], flags | abi.ACCUMULATE)
    low.quantise_if_wanted(step.out)


def emit_activate(low: Lowering, step: Activate) -> None:
    outputs, writes, flags = low.values_out(step.out)
    words = low.floats_in(step.x) | outputs | {abi.BIAS: low.vector(step.bias) if step.bias else 0}
    low.emit(KernelKey("activate", (step.activation.value,)), words, [("floats", step.x)], writes, flags)


def emit_soft_cap(low: Lowering, step: SoftCap) -> None:
    outputs, flags = low.floats_out(step.x)
    words = outputs | {abi.N: low.buffers.width(step.x), abi.SOFT_CAP: step.cap}
    floats: list[Resource] = [("floats", step.x)]
    low.emit(KernelKey("soft_cap"), words, floats, floats, flags)
    low.quantise_if_wanted(step.x)


def emit_gated_activation(low: Lowering, step: GatedActivation) -> None:
    words = low.floats_in(step.gate) | low.floats_in(step.up, abi.W, abi.W_STRIDE)
    outputs, writes, flags = low.values_out(step.out)
    reads: list[Resource] = [("floats", step.gate), ("floats", step.up)]
    length = low.buffers.width(step.up) // low.buffers.width(step.gate)
    key = KernelKey("gated_activation", (step.activation.value, length))
    low.emit(key, words | outputs, reads, writes, flags)


def emit_add(low: Lowering, step: Add) -> None:
    words = low.floats_in(step.x) | low.floats_in(step.y, abi.W, abi.W_STRIDE)
    outputs, flags = low.floats_out(step.out)
    words |= outputs | {abi.N: low.buffers.width(step.out), abi.SCALE: step.scale}
    reads: list[Resource] = [("floats", step.x), ("floats", step.y)]
    low.emit(KernelKey("add_rows"), words, reads, [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def emit_copy_parts(low: Lowering, step: CopyParts) -> None:
    outputs, flags = low.floats_out(step.out)
    from_length = 0 if step.shared else low.buffers.width(step.x) // step.parts
    words = low.floats_in(step.x) | outputs | {abi.HEADS: step.parts, abi.K: step.width}
    words |= {abi.FROM_FIRST: 4 * step.first, abi.FROM_STRIDE: 4 * from_length}
    words |= {abi.TO_FIRST: 4 * step.out_first, abi.TO_STRIDE: 4 * step.length}
    low.emit(KernelKey("copy_parts"), words, [("floats", step.x)], [("floats", step.out)], flags)
    low.quantise_if_wanted(step.out)


def emit_select(low: Lowering, step: SelectOutputs) -> None:
    outputs, writes, flags = low.values_out(step.out, source=step.x)
    low.emit(
        KernelKey("copy_rows"),
        low.floats_in(step.x) | outputs,
        [("floats", step.x)],
        writes,
        flags | abi.GATHER,
    )
