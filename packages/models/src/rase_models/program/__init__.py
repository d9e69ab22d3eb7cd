"""What a model computes, apart from how: the op vocabulary and the Program."""

from rase_models.program.ops import (
    Activation,
    Add,
    Attention,
    Embed,
    GatedActivation,
    Linear,
    MoeFfn,
    Op,
    RmsNorm,
    Rope,
    RopePairing,
    Rotate,
    SelectOutputs,
    tensors_of,
)
from rase_models.program.program import KvLayer, Program

__all__ = [
    "Activation",
    "Add",
    "Attention",
    "Embed",
    "GatedActivation",
    "KvLayer",
    "Linear",
    "MoeFfn",
    "Op",
    "Program",
    "RmsNorm",
    "Rope",
    "RopePairing",
    "Rotate",
    "SelectOutputs",
    "tensors_of",
]
