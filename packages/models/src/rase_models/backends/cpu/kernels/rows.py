"""Which rows an op works on, and where they are."""

from rase_models.backends.cpu.abi import (
    FLAGS,
    GATHER,
    LOGITS,
    LOGITS_BASE,
    OUTPUT_INDICES,
    OUTPUT_ROWS,
    OUTPUTS,
    POSITIONS,
    PRIVATE,
    REPLICATED,
    ROWS,
    SCRATCH,
    SCRATCH_STRIDE,
    X_STRIDE,
    Y_STRIDE,
    X,
    Y,
)
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64


@compiled
def row_count(op: int, context: int) -> int:
    """Return how many rows an op works on."""
    return int(load_i64(context + (OUTPUTS if load_i64(op + FLAGS) & OUTPUT_ROWS else ROWS)))


@compiled
def is_private(op: int, context: int) -> bool:
    """Say whether the records of the op's only row are each thread's own."""
    return bool(load_i64(op + FLAGS) & PRIVATE != 0 and row_count(op, context) == 1)


@compiled
def is_replicated(op: int, context: int) -> bool:
    """Say whether every thread does the op for itself."""
    return bool(load_i64(op + FLAGS) & REPLICATED != 0 and row_count(op, context) == 1)


@compiled
def input_row(op: int, context: int, row: int) -> int:
    """Return the address of a row of the input."""
    if load_i64(op + FLAGS) & GATHER:
        row = int(load_i32(load_i64(context + OUTPUT_INDICES) + 4 * row))
    return int(load_i64(op + X) + row * load_i64(op + X_STRIDE))


@compiled
def output_row(op: int, context: int, row: int) -> int:
    """Return the address of a row of the output."""
    base = load_i64(context + LOGITS_BASE) if load_i64(op + FLAGS) & LOGITS else 0
    return int(base + load_i64(op + Y) + row * load_i64(op + Y_STRIDE))


@compiled
def position_of(context: int, row: int) -> int:
    """Return the position of a row in its sequence."""
    return int(load_i32(load_i64(context + POSITIONS) + 4 * row))


@compiled
def scratch(thread: int, context: int) -> int:
    """Return the address of a thread's scratch memory."""
    return int(load_i64(context + SCRATCH) + thread * load_i64(context + SCRATCH_STRIDE))
