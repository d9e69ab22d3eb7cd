"""Ops that mix buffers value by value, or by weights that a run has computed."""

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.lowering.run import Run, f32, i32, u64
from rase_models.program import AddDots, Blend, Clamp, MixParts, Rescale, Scale, Sparsify, Xielu

_MIXING = Source("mixing.cu")


def scale(op: Scale, run: Run) -> None:
    x, out, width = run.read(op.x), run.written(op.out), run.width(op.x)
    sizes = (i32(width), i32(width // (op.parts or width)), f32(op.factor))
    run.each(_MIXING, "scale", run.count(op.x), out, x, run.vector(op.weight), *sizes)


def blend(op: Blend, run: Run) -> None:
    x, y, out, width = run.read(op.x), run.read(op.y), run.written(op.out), run.width(op.x)
    gate = u64(0) if op.gate is None else run.read(op.gate)
    sizes = (i32(width), i32(run.width(op.out) // width))
    run.each(_MIXING, "blend", run.count(op.out), out, x, y, run.vector(op.weight), gate, *sizes)


def mix_parts(op: MixParts, run: Run) -> None:
    inputs = (run.read(op.x), run.read(op.weights), run.read(op.base))
    outs, ins = (run.width(name) // op.length for name in (op.out, op.x))
    sizes = (i32(op.length), i32(outs), i32(ins), f32(op.offset))
    run.each(_MIXING, "mix_parts", run.count(op.out), run.written(op.out), *inputs, *sizes)


def rescale(op: Rescale, run: Run) -> None:
    x, like, out = run.read(op.x), run.read(op.like), run.written(op.out)
    sizes = (i32(run.width(op.like)), f32(op.eps))
    run.launch(_MIXING, "rescale", (op.heads, run.rows, 1), out, x, like, *sizes)


def sparsify(op: Sparsify, run: Run) -> None:
    x, out = run.read(op.x), run.written(op.out)
    sizes = (i32(run.width(op.x)), f32(op.deviations))
    run.launch(_MIXING, "sparsify", (run.rows, 1, 1), out, x, *sizes)


def xielu(op: Xielu, run: Run) -> None:
    bends = (f32(op.above), f32(op.below), f32(op.slope))
    run.each(_MIXING, "xielu", run.count(op.x), run.written(op.out), run.read(op.x), *bends)


def clamp(op: Clamp, run: Run) -> None:
    run.each(_MIXING, "clamp", run.count(op.x), run.written(op.out), run.read(op.x), f32(op.limit))


def add_dots(op: AddDots, run: Run) -> None:
    inputs = (run.read(op.x), run.read(op.q), run.read(op.k), run.read(op.v), run.vector(op.weight))
    width, grid = run.width(op.x) // op.heads, (op.heads, run.rows, 1)
    run.launch(_MIXING, "add_dots", grid, run.written(op.out), *inputs, i32(width), threads=128)
