"""Turns the steps of a Program into the rows of an op table."""

from collections.abc import Callable, Mapping

from rase_models.backends.cpu.arena import Arena
from rase_models.backends.cpu.fusion import fuse
from rase_models.backends.cpu.lowering.attention import emit_attention, emit_prepared_attention, emit_rotate
from rase_models.backends.cpu.lowering.experts import emit_moe_ffn
from rase_models.backends.cpu.lowering.kv_places import KvPlaces
from rase_models.backends.cpu.lowering.lowering import Lowered, Lowering
from rase_models.backends.cpu.lowering.matrices import (
    emit_add_linear,
    emit_gated_linear,
    emit_head_linear,
    emit_linear,
)
from rase_models.backends.cpu.lowering.mixing import (
    emit_add_dots,
    emit_blend,
    emit_clamp,
    emit_mix_parts,
    emit_rescale,
    emit_scale,
    emit_sparsify,
    emit_xielu,
)
from rase_models.backends.cpu.lowering.recurrent import emit_gated_delta, emit_short_conv, emit_state_scan
from rase_models.backends.cpu.lowering.rows import (
    emit_activate,
    emit_add,
    emit_copy_parts,
    emit_embed,
    emit_gated_activation,
    emit_layer_norm,
    emit_norm_add,
    emit_rms_norm,
    emit_select,
    emit_soft_cap,
)
from rase_models.backends.cpu.lowering.scans import emit_keyed_scan, emit_selective_scan, emit_shift
from rase_models.backends.cpu.op_table import place_waits
from rase_models.backends.cpu.steps import AddLinear, GatedLinear, NormAdd, PreparedAttention, Step
from rase_models.backends.cpu.weights import Weights
from rase_models.kv_type import KvType
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
    Program,
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

__all__ = ["Lowered", "lower"]

EMITTERS: Mapping[type, Callable[..., None]] = {
    Activate: emit_activate,
    Add: emit_add,
    AddDots: emit_add_dots,
    AddLinear: emit_add_linear,
    Attention: emit_attention,
    Blend: emit_blend,
    Clamp: emit_clamp,
    CopyParts: emit_copy_parts,
    Embed: emit_embed,
    GatedActivation: emit_gated_activation,
    GatedDelta: emit_gated_delta,
    GatedLinear: emit_gated_linear,
    HeadLinear: emit_head_linear,
    KeyedScan: emit_keyed_scan,
    LayerNorm: emit_layer_norm,
    Linear: emit_linear,
    MixParts: emit_mix_parts,
    MoeFfn: emit_moe_ffn,
    NormAdd: emit_norm_add,
    PreparedAttention: emit_prepared_attention,
    Rescale: emit_rescale,
    RmsNorm: emit_rms_norm,
    Rotate: emit_rotate,
    Scale: emit_scale,
    SelectOutputs: emit_select,
    SelectiveScan: emit_selective_scan,
    Shift: emit_shift,
    ShortConv: emit_short_conv,
    SoftCap: emit_soft_cap,
    Sparsify: emit_sparsify,
    StateScan: emit_state_scan,
    Xielu: emit_xielu,
}
"""What makes rows of each kind of step."""


def lower(
    program: Program,
    weights: Weights,
    max_rows: int,
    arena: Arena,
    *,
    fused: bool = True,
    kv_type: KvType = KvType.F16,
) -> Lowered:
    """Return the rows of a Program. Unfused, every op is executed on its own, with the same bits."""
    steps: tuple[Step, ...] = fuse(program.ops, weights.can_be_gated) if fused else program.ops
    lowering = Lowering(program, weights, max_rows, arena, steps, KvPlaces.of(program, kv_type))
    for index, step in enumerate(steps):
        lowering.begin(index)
        EMITTERS[type(step)](lowering, step)
    lowered = lowering.finish()
    place_waits(lowered.rows)
    return lowered
