"""Norms, rotary positions, activations, and copies."""

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.formats import GROUP
from rase_models.backends.cuda.lowering.products import codes_of
from rase_models.backends.cuda.lowering.run import ELEMENTWISE, Run, f32, f64, i32, u64
from rase_models.program import (
    Activate,
    Activation,
    Add,
    CopyParts,
    GatedActivation,
    LayerNorm,
    RmsNorm,
    RopePairing,
    Rotate,
    SelectOutputs,
    SoftCap,
)

_NORM = Source("norm.cu")
_ROPE = Source("rope.cu")
KINDS = {
    Activation.SILU: 0,
    Activation.GELU_TANH: 1,
    Activation.SIGMOID: 2,
    Activation.SOFTPLUS: 3,
    Activation.NONE: 4,
    Activation.CLAMPED_SWIGLU: 5,
    Activation.RELU: 6,
    Activation.RELU_SQUARED: 7,
    Activation.EXP: 8,
}
"""The numbers that elementwise.cu has for activations."""


def norm(op: RmsNorm | LayerNorm, run: Run) -> None:
    x, out, width = run.read(op.x), run.written(op.out), run.width(op.x) // op.heads
    centred = isinstance(op, LayerNorm)
    bias = run.vector(op.bias) if isinstance(op, LayerNorm) else u64(0)
    codes, scales = _codes(op, run)
    vectors = (run.vector(op.weight), bias)
    flags = (i32(width), i32(op.shared), i32(centred), f32(op.eps))
    grid = (op.heads, run.rows, 1)
    run.launch(_NORM, "normalise", grid, out, x, *vectors, *flags, u64(codes), u64(scales))


def _codes(op: RmsNorm | LayerNorm, run: Run) -> tuple[int, int]:
    """Return where the norm puts its result in 8 bits as well; nowhere if that may be of no use."""
    width = run.width(op.x)
    if op.heads > 1 or width % GROUP or not run.is_small:
        return 0, 0
    run.codes[op.out] = codes_of(run, width, op.out)
    return run.codes[op.out]


def rotate(op: Rotate, run: Run) -> None:
    rope, x = op.rope, run.written(op.x)
    pairs = len(rope.frequencies)
    run.each(
        _ROPE,
        "rotate",
        run.rows * op.heads * pairs,
        x,
        run.constant(f64, rope.frequencies),
        run.input("positions"),
        i32(op.heads),
        i32(run.width(op.x) // op.heads),
        i32(pairs),
        i32(rope.pairing is RopePairing.ADJACENT),
        f64(rope.magnitude),
        f64(rope.growth),
        i32(rope.growth_length),
        i32(rope.growth_first),
    )


def activate(op: Activate, run: Run) -> None:
    x, out = run.read(op.x), run.written(op.out)
    how = (run.vector(op.bias), i32(run.width(op.x)), i32(KINDS[op.activation]))
    run.each(ELEMENTWISE, "activate", run.count(op.x), out, x, *how)


def gated_activation(op: GatedActivation, run: Run) -> None:
    gate, up, out = run.read(op.gate), run.read(op.up), run.written(op.out)
    widths = (i32(run.width(op.up)), i32(run.width(op.gate)))
    run.each(ELEMENTWISE, "gate", run.count(op.up), out, gate, up, *widths, i32(KINDS[op.activation]))


def soft_cap(op: SoftCap, run: Run) -> None:
    run.each(ELEMENTWISE, "soft_cap", run.count(op.x), run.written(op.x), f32(op.cap))


def add(op: Add, run: Run) -> None:
    x, y, out = run.read(op.x), run.read(op.y), run.written(op.out)
    run.each(ELEMENTWISE, "add", run.count(op.x), out, x, y, f32(op.scale))


def copy_parts(op: CopyParts, run: Run) -> None:
    x, out = run.read(op.x), run.written(op.out)
    x_parts = 1 if op.shared else op.parts
    run.each(
        ELEMENTWISE,
        "copy_parts",
        run.rows * op.parts * op.width,
        out,
        x,
        i32(op.parts),
        i32(op.length),
        i32(x_parts),
        i32(run.width(op.x) // x_parts),
        i32(op.width),
        i32(op.first),
        i32(op.out_first),
    )


def select_outputs(op: SelectOutputs, run: Run) -> None:
    """Add a copy of the wanted rows; whoever lowers the ops sets `run.rows` after the last of these."""
    x, width = run.read(op.x), run.width(op.x)
    all_rows, run.rows = run.rows, run.outputs
    out = run.written(op.out)
    run.each(ELEMENTWISE, "take_rows", run.outputs * width, out, x, run.input("outputs"), i32(width))
    run.rows = all_rows
