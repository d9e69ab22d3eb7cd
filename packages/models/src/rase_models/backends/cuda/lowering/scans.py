"""Ops that shift rows, scan channels, or keep a matrix of keys and values along a sequence."""

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.lowering.recurrent import state_of
from rase_models.backends.cuda.lowering.run import Run, f32, i32, u64
from rase_models.program import KeyedScan, SelectiveScan, Shift

_SCANS = Source("scans.cu")


def shift(op: Shift, run: Run) -> None:
    x, out, width = run.read(op.x), run.written(op.out), run.width(op.x)
    grid = (-(-width // 128), run.sequences, 1)
    run.launch(_SCANS, "shift", grid, out, x, *state_of(run, op.state), i32(width), threads=128)


def selective_scan(op: SelectiveScan, run: Run) -> None:
    channels, size = run.width(op.x), run.width(op.b)
    inputs = (run.read(op.x), run.read(op.b), run.read(op.c), run.read(op.step))
    vectors, state = (run.vector(op.decay), run.vector(op.skip)), state_of(run, op.state)
    arguments = (run.written(op.out), *inputs, *vectors, *state)
    grid, sizes = (-(-channels // 128), run.sequences, 1), (i32(channels), i32(size))
    run.launch(_SCANS, "selective_scan", grid, *arguments, *sizes, threads=128)


def keyed_scan(op: KeyedScan, run: Run) -> None:
    keys, values = run.width(op.k) // op.heads, run.width(op.v) // op.heads
    inputs = (run.read(op.q), run.read(op.k), run.read(op.v), run.read(op.keep))
    correction = tuple(u64(0) if name is None else run.read(name) for name in (op.a, op.b))
    sizes = (i32(op.heads), i32(keys), i32(values), f32(op.scale), i32(op.reads_before))
    arguments = (run.written(op.out), *inputs, *correction, *state_of(run, op.state))
    run.launch(_SCANS, "keyed_scan", (op.heads, run.sequences, 1), *arguments, *sizes, threads=128)
