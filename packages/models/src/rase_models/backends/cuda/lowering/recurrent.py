"""Ops that carry a state from one row of a sequence to the next."""

from rase_core.errors import BackendFailure

from rase_models.backends.cuda.device import Source
from rase_models.backends.cuda.lowering.run import Run, f32, i32, u64
from rase_models.program import GatedDelta, ShortConv, StateScan

_RECURRENT = Source("recurrent.cu")
_WARPS = 4
MOST_TAPS = 16
"""As in recurrent.cu."""
MOST_KEYS = 4096
"""Of a head of gated delta, whose query and key lie in the 48 KiB of shared memory that every GPU has."""
_ADVICE = "use --device cpu"


def short_conv(op: ShortConv, run: Run) -> None:
    if op.taps > MOST_TAPS:
        raise BackendFailure(f"the cuda backend takes {MOST_TAPS} taps, not {op.taps}", _ADVICE)
    x, out, width = run.read(op.x), run.written(op.out), run.width(op.x)
    grid = (-(-width // 128), run.sequences, 1)
    arguments = (out, x, run.vector(op.weight), run.vector(op.bias), *state_of(run, op.state))
    run.launch(_RECURRENT, "short_conv", grid, *arguments, i32(width), i32(op.taps), threads=128)


def state_scan(op: StateScan, run: Run) -> None:
    length, depth = run.width(op.x) // op.heads, run.width(op.b) // op.groups
    values = (run.read(op.x), run.read(op.b), run.read(op.c), run.read(op.step))
    arguments = (
        run.written(op.out),
        *values,
        run.vector(op.decay),
        run.vector(op.skip),
        *state_of(run, op.state),
    )
    sizes = (i32(op.heads), i32(op.groups), i32(length), i32(depth))
    grid = (-(-length // _WARPS), op.heads, run.sequences)
    run.launch(_RECURRENT, "state_scan", grid, *arguments, *sizes, threads=32 * _WARPS)


def gated_delta(op: GatedDelta, run: Run) -> None:
    keys, values = run.width(op.k) // op.key_heads, run.width(op.v) // op.heads
    if keys > MOST_KEYS:
        raise BackendFailure(
            f"the cuda backend takes {MOST_KEYS} keys of a head, not {keys}", "use --device cpu"
        )
    rows = (run.read(op.q), run.read(op.k), run.read(op.v), run.read(op.step), run.read(op.beta))
    arguments = (run.written(op.out), *rows, run.vector(op.decay), *state_of(run, op.state))
    sizes = (i32(op.heads), i32(op.key_heads), i32(keys), i32(values), f32(op.eps))
    grid = (op.heads, run.sequences, 1)
    run.launch(_RECURRENT, "gated_delta", grid, *arguments, *sizes, threads=128, shared=8 * keys)


def state_of(run: Run, state: int) -> tuple[u64, ...]:
    """Return the addresses of the states and of what says which rows and slot a sequence has."""
    names = ("positions", "firsts", "counts", "states")
    return u64(run.states[state].address), *(run.input(name) for name in names)
