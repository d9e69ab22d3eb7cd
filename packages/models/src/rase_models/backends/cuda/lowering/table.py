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
from rase_models.backends.cuda.lowering.mixing import (
    add_dots,
    blend,
    clamp,
    mix_parts,
    rescale,
    scale,
    sparsify,
    xielu,
)
from rase_models.backends.cuda.lowering.products import embed, head_linear, linear
from rase_models.backends.cuda.lowering.recurrent import gated_delta, short_conv, state_scan
from rase_models.backends.cuda.lowering.run import Run
from rase_models.backends.cuda.lowering.scans import keyed_scan, selective_scan, shift
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

LOWERINGS: Mapping[type[Op], Callable[..., None]] = MappingProxyType(
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
        LayerNorm: norm,
        Linear: linear,
        MixParts: mix_parts,
        MoeFfn: moe_ffn,
        Rescale: rescale,
        RmsNorm: norm,
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
"""The function of every op."""


def lowered(run: Run) -> list[Command]:
    """Return the commands of a run; without outputs those that fill the caches, which come first."""
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
