"""Where the states of sequences are, and which rows a sequence has."""

from rase_models.backends.cpu.abi import STATE_OFFSET, STATE_SLOTS, STATES
from rase_models.backends.cpu.kernels.kv_cache import sequence_of
from rase_models.backends.cpu.kernels.rows import position_of
from rase_models.backends.cpu.simd import compiled, f32, load_i32, load_i64, splat, store_f32x16


@compiled
def begins_sequence(context: int, row: int) -> bool:
    """Say whether a row is the first one of its sequence in this run."""
    return bool(row == 0 or sequence_of(context, row) != sequence_of(context, row - 1))


@compiled
def end_of_sequence(context: int, row: int, rows: int) -> int:
    """Return the end of the rows of a sequence that begins at a row."""
    end = row + 1
    while end < rows and not begins_sequence(context, end):
        end += 1
    return end


@compiled
def state_of(op: int, context: int, row: int) -> int:
    """Return the address of the op's state of the sequence that a row belongs to."""
    slot = int(load_i32(load_i64(context + STATES) + 4 * sequence_of(context, row)))
    return int(load_i64(load_i64(context + STATE_SLOTS) + 8 * slot) + load_i64(op + STATE_OFFSET))


@compiled
def clear_if_new(context: int, row: int, state: int, count: int, stride: int) -> None:
    """Set `count` vectors of 16 values, `stride` bytes apart, to 0 when the row is at position 0."""
    if position_of(context, row) == 0:
        for index in range(count):
            store_f32x16(state + index * stride, splat(f32(0.0)))
