"""How threads share an op: chunks are claimed one by one, and it is over when all of them are done.

Nobody waits for a thread that holds no chunk, so one that lost its core does not hold up the rest; it finds
later that the ops it missed are over. Each op has a claim word, alone in its cache line:

    run number, 24 bits | chunks not yet claimed, 20 bits | chunks not yet done, 20 bits

The first thread to arrive in a run opens the word; whoever is late by a run sees a newer number and passes
on. Every op is passed by thread 0 in every run, and an op of no chunks is opened and over at once, so at
the end of a run all words carry its number.
"""

from collections.abc import Callable
from typing import Any

from rase_models.backends.cpu.abi import CLAIMS, SLOT_BYTES, SLOT_STEP, SLOTS
from rase_models.backends.cpu.simd import atomic_add, atomic_load, compare_exchange, compiled, load_i64

COUNT_BITS = 20
STEP_SHIFT = 2 * COUNT_BITS
STEP_BITS = 64 - STEP_SHIFT
COUNT_MASK = (1 << COUNT_BITS) - 1
_HALF_RANGE = 1 << (STEP_BITS - 1)
_STEP_MASK = (1 << STEP_BITS) - 1


@compiled
def step_of(thread: int, context: int) -> int:
    """Return the number of the run that a thread works on, as in a claim word."""
    return int(load_i64(load_i64(context + SLOTS) + thread * SLOT_BYTES + SLOT_STEP) & _STEP_MASK)


@compiled
def steps_ahead(word: int, step: int) -> int:
    """Return 0 when a claim word belongs to the run, more for a later run, less for an earlier one."""
    return ((((word >> STEP_SHIFT) & _STEP_MASK) - step + _HALF_RANGE) & _STEP_MASK) - _HALF_RANGE


@compiled
def claim(thread: int, op: int, context: int, chunks: int) -> int:
    """Take one of an op's chunks; returns its number, ascending, or -1 when none is left."""
    address = load_i64(op + CLAIMS)
    step = step_of(thread, context)
    while True:
        word = atomic_load(address)
        ahead = steps_ahead(word, step)
        if ahead > 0:
            return -1
        if ahead < 0:
            unclaimed = chunks - 1 if chunks > 0 else 0
            opened = (step << STEP_SHIFT) | (unclaimed << COUNT_BITS) | chunks
            if compare_exchange(address, word, opened) == word:
                return 0 if chunks > 0 else -1
        else:
            unclaimed = (word >> COUNT_BITS) & COUNT_MASK
            if unclaimed == 0:
                return -1
            if compare_exchange(address, word, word - (1 << COUNT_BITS)) == word:
                return int(chunks - unclaimed)


@compiled
def finish(op: int, chunks: int) -> None:
    """Report claimed chunks as done."""
    if chunks > 0:
        atomic_add(load_i64(op + CLAIMS), -chunks)


@compiled
def is_over(op: int, step: int) -> bool:
    """Say whether all chunks of an op are done in a run."""
    word = atomic_load(load_i64(op + CLAIMS))
    ahead = steps_ahead(word, step)
    return ahead > 0 or (ahead == 0 and word & COUNT_MASK == 0)


@compiled
def chunk_size(units: int, threads: int, chunks_per_thread: int) -> int:
    """Return how many units of work go into a chunk: all of them for one thread."""
    if threads == 1:
        return max(units, 1)
    wanted = threads * chunks_per_thread
    return max((units + wanted - 1) // wanted, 1)


def share(
    units: Callable[[int, int], int], work: Callable[[int, int, int, int], None], chunks_per_thread: int
) -> Any:
    """Build a kernel that shares out units of work among the threads.

    Both functions are compiled ones: `units(op, context)` counts them, and `work(thread, op, context,
    unit)` does one.
    """

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        count = units(op, context)
        size = chunk_size(count, threads, chunks_per_thread)
        chunks = (count + size - 1) // size
        done = 0
        chunk = claim(thread, op, context, chunks)
        while chunk >= 0:
            for unit in range(chunk * size, min(count, (chunk + 1) * size)):
                work(thread, op, context, unit)
            done += 1
            chunk = claim(thread, op, context, chunks)
        finish(op, done)

    return kernel
