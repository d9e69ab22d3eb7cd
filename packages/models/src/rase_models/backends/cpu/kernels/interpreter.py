"""The interpreter that all threads run over an op table, and the loop of waiting workers."""

import sys
from functools import cache
from typing import Any

from rase_models.backends.cpu.abi import (
    ACTIVE,
    FLAGS,
    FUNCTION,
    OP_BYTES,
    PATIENCE,
    PROFILE,
    PROGRAM,
    PROGRAM_END,
    REST_OF_RUN,
    SLEEPERS,
    SLEEPERS_SEEN,
    SLOT_BYTES,
    SLOT_DONE,
    SLOT_STEP,
    SLOTS,
    SPINS,
    START_OF_RUN,
    STEP,
    WAIT,
    WAIT_COUNT,
    WAIT_IF_MANY,
)
from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, I64, Value, constant
from rase_models.backends.cpu.kernels.claims import is_over, step_of
from rase_models.backends.cpu.kernels.rows import is_replicated, row_count
from rase_models.backends.cpu.simd import (
    atomic_add,
    atomic_load,
    atomic_store,
    call_kernel,
    compiled,
    cycle_counter,
    i64,
    load_i64,
    operation,
    pause,
    store_i64,
    void,
)

_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_EVERYONE = 0x7FFFFFFF


@cache
def _futex_call(number: int) -> Any:
    """Return the operation that sleeps while the low half of a word is `value`, or wakes: see futex(2)."""

    @operation(void, i64, i64, i64)
    def futex(code: Code, address: Value, action: Value, value: Value) -> None:
        zero = constant(I64, 0)
        code.call("syscall", I64, [constant(I64, number), address, action, value, zero, zero, zero])

    return futex


@operation(void)
def _yield_core(code: Code) -> None:
    """Let another thread have the core."""
    if sys.platform == "win32":
        code.call("SwitchToThread", I32, [])
    else:
        code.call("sched_yield", I32, [])


@compiled
def _wait_for_group(last: int, step: int, context: int) -> None:
    patience = load_i64(context + PATIENCE)
    for back in range(load_i64(last + WAIT_COUNT)):
        op = last - back * OP_BYTES
        pauses = 0
        while not is_replicated(op, context) and not is_over(op, step):
            pauses += 1
            if pauses > patience:
                _yield_core()
            else:
                pause()


@compiled
def _must_wait(op: int, context: int) -> bool:
    flags = load_i64(op + FLAGS)
    return bool(flags & WAIT != 0 or (flags & WAIT_IF_MANY != 0 and row_count(op, context) != 1))


@compiled
def _interpret(thread: int, threads: int, context: int) -> None:
    op = load_i64(context + PROGRAM)
    end = load_i64(context + PROGRAM_END)
    step = step_of(thread, context)
    while op < end:
        call_kernel(load_i64(op + FUNCTION), thread, threads, op, context)
        if _must_wait(op, context):
            _wait_for_group(op, step, context)
        op += OP_BYTES


@compiled
def _interpret_profiled(thread: int, threads: int, context: int, counters: int) -> None:
    """The same, adding up the cycles of each op and of the wait after it."""
    op = load_i64(context + PROGRAM)
    end = load_i64(context + PROGRAM_END)
    step = step_of(thread, context)
    while op < end:
        start = cycle_counter()
        call_kernel(load_i64(op + FUNCTION), thread, threads, op, context)
        worked = cycle_counter()
        if _must_wait(op, context):
            _wait_for_group(op, step, context)
        store_i64(counters, load_i64(counters) + worked - start)
        store_i64(counters + 8, load_i64(counters + 8) + cycle_counter() - worked)
        counters += 16
        op += OP_BYTES


@compiled
def _take_part(thread: int, step: int, context: int) -> None:
    """Run the program once as one of the active threads."""
    slot = load_i64(context + SLOTS) + thread * SLOT_BYTES
    store_i64(slot + SLOT_STEP, step)
    active = load_i64(context + ACTIVE)
    counters = load_i64(context + PROFILE)
    if thread < active:
        if counters != 0 and thread == 0:
            _interpret_profiled(thread, active, context, counters)
        else:
            _interpret(thread, active, context)
    atomic_store(slot + SLOT_DONE, step)


def run(futex: int) -> Any:
    """Build the kernel that starts a run, takes part as thread 0 and returns when the run is over.

    `op` may ask for one of these alone (`abi.WHOLE_RUN`). Called for a negative thread it ends the workers
    instead. `futex` is the number of the system call, 0 where kernels cannot sleep.
    """
    sleeps_here, call_futex = futex != 0, _futex_call(futex)

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if thread < 0:
            atomic_store(context + STEP, -1)
        if op != REST_OF_RUN:
            atomic_add(context + STEP, 1 if thread >= 0 else 0)
            # after the step: whoever goes to sleep counts itself before it looks at the step again
            sleepers = atomic_load(context + SLEEPERS)
            store_i64(context + SLEEPERS_SEEN, sleepers)
            if sleeps_here and sleepers > 0:
                call_futex(context + STEP, _FUTEX_WAKE_PRIVATE, _EVERYONE)
        if thread >= 0 and op != START_OF_RUN:
            _take_part(0, atomic_load(context + STEP), context)

    return kernel


def pauses() -> Any:
    """Build the kernel that pauses `op` times, to learn how long a pause is."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        for _ in range(op):
            pause()

    return kernel


def worker(futex: int) -> Any:
    """Build the kernel of a worker: take part in every run until the step is negative.

    `futex` is the number of the system call, 0 where kernels cannot sleep: there it counts itself as a
    sleeper and returns when it has spun long enough; `op` is 1 when it is called again after that.
    """
    sleeps_here, call_futex = futex != 0, _futex_call(futex)

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if op == 1:
            atomic_add(context + SLEEPERS, -1)
        seen = load_i64(load_i64(context + SLOTS) + thread * SLOT_BYTES + SLOT_DONE)
        pauses = 0
        while True:
            step = atomic_load(context + STEP)
            if step < 0:
                return
            if step != seen:
                _take_part(thread, step, context)
                seen = step
                pauses = 0 if thread < load_i64(context + ACTIVE) else load_i64(context + SPINS)
            elif pauses < load_i64(context + SPINS):
                pauses += 1
                pause()
            elif sleeps_here:
                atomic_add(context + SLEEPERS, 1)
                call_futex(context + STEP, _FUTEX_WAIT_PRIVATE, step)
                atomic_add(context + SLEEPERS, -1)
                pauses = 0
            else:
                atomic_add(context + SLEEPERS, 1)
                if atomic_load(context + STEP) == step:
                    return
                atomic_add(context + SLEEPERS, -1)

    return kernel
