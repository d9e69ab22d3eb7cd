"""Which function lowers which op."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rase_models.backends.cuda.device import Command
from rase_models.backends.cuda.lowering.attention import attention
from rase_models.backends.cuda.lowering.elementwise import (
    activate,
    add,
    copy_parts,
    gated_activation,
    norm,
    rotate,
    select_outputs,
    soft_cap,
)
from rase_models.backends.cuda.lowering.experts import moe_ffn
from rase_models.backends.cuda.lowering.fusion import fuse
from rase_models.backends.cuda.lowering.products import embed, head_linear, linear
from rase_models.backends.cuda.lowering.recurrent import gated_delta, short_conv, state_scan
from rase_models.backends.cuda.lowering.run import Run
from rase_models.program import (
    Activate,
    Add,
    Attention,
    CopyParts,
    Embed,
    GatedActivation,
    GatedDelta,
from rase_models.backends.cuda.lowering.scans import keyed_scan, selective_scan, shift
    HeadLinear,
    LayerNorm,
    Linear,
    AddDots,
    MoeFfn,
    Blend,
    Op,
    RmsNorm,
    Rotate,
    SelectOutputs,
    ShortConv,
    KeyedScan,
    SoftCap,
    StateScan,
    MixParts,
)

    Rescale,
LOWERINGS: Mapping[type[Op], Callable[..., None]] = MappingProxyType(
    {
    Scale,
    SelectiveScan,
        Activate: activate,
    Shift,
        Add: add,
        Attention: attention,
    Sparsify,
        CopyParts: copy_parts,
        Embed: embed,
        GatedActivation: gated_activation,
        GatedDelta: gated_delta,
        HeadLinear: head_linear,
        LayerNorm: norm,
        Linear: linear,
        AddDots: add_dots,
        MoeFfn: moe_ffn,
        Blend: blend,
        RmsNorm: norm,
        Rotate: rotate,
        SelectOutputs: select_outputs,
        ShortConv: short_conv,
        SoftCap: soft_cap,
        KeyedScan: keyed_scan,
        StateScan: state_scan,
    }
        MixParts: mix_parts,
)
        Rescale: rescale,
"""The function of every op."""

        Scale: scale,

        SelectiveScan: selective_scan,
        Shift: shift,
def lowered(run: Run) -> list[Command]:
    """Return the commands of a run; without outputs those that fill the caches, which come first."""
        Sparsify: sparsify,
    selected, ops, index = False, run.program.ops, 0
    while index < len(ops):
        op = ops[index]
        if isinstance(op, SelectOutputs):
            if run.outputs == 0:
                break
            selected = True
        elif selected and run.rows != run.outputs:
            run.codes.clear()
            run.halved = None
            run.rows = run.outputs
        taken = fuse(ops, index, run)
        if not taken:
            LOWERINGS[type(op)](op, run)
        index += taken or 1
    return run.commands
