"""The interpreter that all threads run over an op table, and the loop of waiting workers."""

import platform
import sys
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
    SLEEPERS,
    SLOT_BYTES,
    SLOT_DONE,
    SLOT_STEP,
    SLOTS,
    SPINS,
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

FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""The number of the futex system call of Linux by machine."""
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_EVERYONE = 0x7FFFFFFF


def _futex_number() -> int:
    return FUTEX_NUMBERS.get(platform.machine(), 0) if sys.platform == "linux" else 0


def sleeps_in_python() -> bool:
    """Say whether an idle worker returns to Python to sleep: kernels know no way on this system."""
    return _futex_number() == 0


@operation(void, i64, i64, i64)
def _futex(code: Code, address: Value, action: Value, value: Value) -> None:
    """Sleep while the low half of the word at an address is `value`, or wake who does. See futex(2)."""
    zero = constant(I64, 0)
    code.call("syscall", I64, [constant(I64, _futex_number()), address, action, value, zero, zero, zero])


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


def run() -> Any:
    """Build the kernel that starts a run, takes part as thread 0 and returns when the run is over.

    Called for a negative thread it ends the workers instead.
    """
    sleeps_here = not sleeps_in_python()

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        if thread < 0:
            atomic_store(context + STEP, -1)
        step = atomic_add(context + STEP, 1 if thread >= 0 else 0) + 1
        if sleeps_here and atomic_load(context + SLEEPERS) > 0:
            _futex(context + STEP, _FUTEX_WAKE_PRIVATE, _EVERYONE)
        if thread >= 0:
            _take_part(0, step, context)

    return kernel


def pauses() -> Any:
    """Build the kernel that pauses `op` times, to learn how long a pause is."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        for _ in range(op):
            pause()

    return kernel


def worker() -> Any:
    """Build the kernel of a worker: take part in every run until the step is negative.

    Where the kernels cannot sleep, it counts itself as a sleeper and returns when it has spun long enough;
    `op` is 1 when it is called again after that.
    """
    sleeps_here = not sleeps_in_python()

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
                _futex(context + STEP, _FUTEX_WAIT_PRIVATE, step)
                atomic_add(context + SLEEPERS, -1)
                pauses = 0
            else:
                atomic_add(context + SLEEPERS, 1)
                if atomic_load(context + STEP) == step:
                    return
                atomic_add(context + SLEEPERS, -1)

    return kernel
