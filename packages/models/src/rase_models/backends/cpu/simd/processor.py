"""Atomics, waiting, counters, and calling a kernel by its address."""

from llvmlite import ir

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I32, I64, VOID, Value, constant
from rase_models.backends.cpu.instruction_set import Architecture
from rase_models.backends.cpu.simd.operation import i64, operation, void

_ARM_YIELD = 1


@operation(i64, i64, i64)
def atomic_add(code: Code, address: Value, value: Value) -> Value:
    """Add to the int64 at an address; returns what it was. In one order with all these and `atomic_load`."""
    return code.builder.atomic_rmw("add", code.pointer(address, I64), value, "seq_cst")


@operation(i64, i64)
def atomic_load(code: Code, address: Value) -> Value:
    """Load an int64, acquiring what its writer released. In one order with these and `atomic_add`."""
    return code.builder.load_atomic(code.pointer(address, I64), "seq_cst", 8, typ=I64)


@operation(void, i64, i64)
def atomic_store(code: Code, address: Value, value: Value) -> None:
    """Store an int64, releasing all earlier stores."""
    code.builder.store_atomic(value, code.pointer(address, I64), "release", 8)


@operation(i64, i64, i64, i64)
def compare_exchange(code: Code, address: Value, expected: Value, desired: Value) -> Value:
    """Replace the int64 at an address if it is `expected`; returns what it was."""
    b = code.builder
    pair = b.cmpxchg(code.pointer(address, I64), expected, desired, "acq_rel", "acquire")
    return b.extract_value(pair, 0)


@operation(void)
def pause(code: Code) -> None:
    """Tell the processor that this is a spinning loop."""
    if code.instruction_set.architecture is Architecture.X86:
        code.call("llvm.x86.sse2.pause", VOID, [])
    elif code.instruction_set.architecture is Architecture.ARM:
        code.call("llvm.aarch64.hint", VOID, [constant(I32, _ARM_YIELD)])


@operation(i64)
def cycle_counter(code: Code) -> Value:
    """Read a counter that advances at a steady rate; its unit differs between machines; 0 on some."""
    if code.instruction_set.architecture is Architecture.X86:
        return code.call("llvm.readcyclecounter", I64, [])
    if code.instruction_set.architecture is Architecture.ARM:
        return code.call("llvm.readsteadycounter", I64, [])
    return constant(I64, 0)


@operation(void, i64, i64, i64, i64, i64)
def call_kernel(code: Code, kernel: Value, *arguments: Value) -> None:
    """Call the kernel at an address: void kernel(thread, threads, op, context), all int64."""
    signature = ir.FunctionType(VOID, [I64] * len(arguments))
    code.builder.call(code.pointer(kernel, signature), list(arguments))


@operation(i64, i64)
def opaque(code: Code, value: Value) -> Value:
    """Return the value with its origin hidden from the optimiser."""
    return code.opaque(value)
