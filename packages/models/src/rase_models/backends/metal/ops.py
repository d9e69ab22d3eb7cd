"""What every op means, in MLX. Nothing is computed until the run's logits are evaluated."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import mlx.core as mx

from rase_models.backends.metal.activations import ACTIVATIONS, GATES
from rase_models.backends.metal.attention import attention
from rase_models.backends.metal.experts import moe_ffn
from rase_models.backends.metal.mixing import (
    add_dots,
    blend,
    clamp,
    mix_parts,
    rescale,
    scale,
    sparsify,
    xielu,
)
from rase_models.backends.metal.recurrent import gated_delta, short_conv, state_scan
from rase_models.backends.metal.rotation import rotate
from rase_models.backends.metal.run import Run
from rase_models.backends.metal.scans import keyed_scan, selective_scan, shift
from rase_models.program import (
    Activate,
    Add,
    AddDots,
    Attention,
    Blend,
    Clamp,
    CopyParts,
    Embed,
    GatedActivation,
    GatedDelta,
    HeadLinear,
    KeyedScan,
    LayerNorm,
    Linear,
    MixParts,
    MoeFfn,
    Op,
    Rescale,
    RmsNorm,
    Rotate,
    Scale,
    SelectiveScan,
    SelectOutputs,
    Shift,
    ShortConv,
    SoftCap,
    Sparsify,
    StateScan,
    Xielu,
)


def embed(op: Embed, run: Run) -> None:
    rows = run.rows.positions if op.by_position else run.rows.tokens
    run.buffers[op.out] = run.weights[op.weight].rows(mx.array(rows)) * op.scale


def rms_norm(op: RmsNorm, run: Run) -> None:
    weight, after = _weights(op, run)
    normed = mx.fast.rms_norm(run.parts(op.x, op.heads), weight, op.eps)
    run.buffers[op.out] = _flat(normed if after is None else normed * after)


def layer_norm(op: LayerNorm, run: Run) -> None:
    weight, after = _weights(op, run)
    normed = mx.fast.layer_norm(run.parts(op.x, op.heads), weight, None, op.eps)
    normed = normed if after is None else normed * after
    run.buffers[op.out] = _flat(normed if op.bias is None else normed + _of_parts(op, run, op.bias))


def _weights(op: RmsNorm | LayerNorm, run: Run) -> tuple[mx.array | None, mx.array | None]:
    """Return a norm's weight for MLX to apply, if all parts have the same, or else what to multiply with."""
    if op.weight is None:
        return None, None
    weight = _of_parts(op, run, op.weight)
    return (weight[0], None) if weight.shape[0] == 1 else (None, weight)


def _of_parts(op: RmsNorm | LayerNorm, run: Run, name: str) -> mx.array:
    """Return a norm's vector for its parts, [1 or parts, width of a part]."""
    return run.vector(name).reshape(1 if op.shared else op.heads, -1)


def _flat(parts: mx.array) -> mx.array:
    return parts.reshape(parts.shape[0], -1)


def linear(op: Linear, run: Run) -> None:
    out = _product(op, run) * op.scale
    if op.bias is not None:
        out = out + run.vector(op.bias).reshape(-1) * op.bias_scale
    run.buffers[op.out] = out


def _product(op: Linear, run: Run) -> mx.array:
    x, matrix = run.buffers[op.x], run.weights[op.weight]
    if matrix.arrays[0].ndim > 1:
        return matrix.times(x)
    return x @ matrix.floats()[:, None]


def head_linear(op: HeadLinear, run: Run) -> None:
    x = run.parts(op.x, op.heads)
    weight = run.weights[op.weight].floats().reshape(op.heads, -1, x.shape[-1])
    run.buffers[op.out] = _flat((weight[None] @ x[..., None])[..., 0])


def copy_parts(op: CopyParts, run: Run) -> None:
    x = run.parts(op.x, 1 if op.shared else op.parts)[..., op.first : op.first + op.width]
    x = mx.broadcast_to(x, (x.shape[0], op.parts, op.width))
    out = run.buffers.get(op.out)
    if out is None or out.shape[0] != x.shape[0]:  # never written, or before the wanted rows were selected
        out = mx.zeros((x.shape[0], op.parts * op.length))
    out = out.reshape(x.shape[0], op.parts, op.length)
    before, after = out[..., : op.out_first], out[..., op.out_first + op.width :]
    run.buffers[op.out] = _flat(mx.concatenate([before, x, after], axis=-1))


def activate(op: Activate, run: Run) -> None:
    x = run.buffers[op.x]
    run.buffers[op.out] = ACTIVATIONS[op.activation](x if op.bias is None else x + run.vector(op.bias))


def gated_activation(op: GatedActivation, run: Run) -> None:
    gate, up = run.buffers[op.gate], run.buffers[op.up]
    if gate.shape[-1] > 1:
        gate = mx.repeat(gate, up.shape[-1] // gate.shape[-1], axis=-1)
    run.buffers[op.out] = GATES[op.activation](gate, up)


def soft_cap(op: SoftCap, run: Run) -> None:
    run.buffers[op.x] = op.cap * mx.tanh(run.buffers[op.x] / op.cap)


def add(op: Add, run: Run) -> None:
    total = run.buffers[op.x] + run.buffers[op.y]
    run.buffers[op.out] = total if op.scale == 1 else total * op.scale


def select_outputs(op: SelectOutputs, run: Run) -> None:
    run.buffers[op.out] = run.buffers[op.x][mx.array(run.rows.outputs)]


OPS: Mapping[type[Op], Callable[..., None]] = MappingProxyType(
    {
        Activate: activate,
        Add: add,
        AddDots: add_dots,
        Attention: attention,
        Blend: blend,
        Clamp: clamp,
        CopyParts: copy_parts,
        Embed: embed,
        GatedActivation: gated_activation,
        GatedDelta: gated_delta,
        HeadLinear: head_linear,
        KeyedScan: keyed_scan,
        LayerNorm: layer_norm,
        Linear: linear,
        MixParts: mix_parts,
        MoeFfn: moe_ffn,
        Rescale: rescale,
        RmsNorm: rms_norm,
        Rotate: rotate,
        Scale: scale,
        SelectOutputs: select_outputs,
        SelectiveScan: selective_scan,
        Shift: shift,
        ShortConv: short_conv,
        SoftCap: soft_cap,
        Sparsify: sparsify,
        StateScan: state_scan,
        Xielu: xielu,
    }
)


def execute(op: Op, run: Run) -> None:
    """Describe one op on the buffers of a run."""
    OPS[type(op)](op, run)
