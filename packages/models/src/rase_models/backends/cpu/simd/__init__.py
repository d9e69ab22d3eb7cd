"""What compiled kernels are written with: 16-lane vectors as values, raw addresses, atomics. Needs numba.

All pointers are int64. A vector has 16 lanes on every instruction set, floats are rounded as written, and
reductions have one order, so results are the same bits everywhere. All of these are called from compiled
functions only.

    compiled, compiled_for_python   decorate a helper; decorate what the interpreter calls
    operation, Code                 make an operation out of emitted LLVM IR (`Code` is in `emission.code`)
    f32x16, i32x16, f64, f32, i32, i64, void   numba types

    load_i64 load_i32                               (address) -> int64, or int32
    store_i64 store_i32 store_i32x16                (address, value)
    load_f32 load_f64                               (address) -> float32, or float64
    store_f32 store_f16 store_f64                   (address, float32, or float64)
    load_f32x16 load_f16x16                         (address) -> f32x16
    store_f32x16 store_f16x16                       (address, f32x16)
    prefetch(address)                               into the first level

    splat(float32) count_from(float32) first_lane(v) keep_first(v, count, fill)
    even_lanes(a, b) odd_lanes(a, b) interleave_low(a, b) interleave_high(a, b)
    add subtract multiply divide maximum minimum (x, y), fma(x, y, z), fma_f32 of scalars
    absolute negate square_root exp sigmoid tanh (x), exp_f32 of a scalar
    sum_lanes max_lanes (v) -> float32
    round_to_int(v) -> i32x16, to_float(i32x16)
    quantise32(low, high, record, row, panel)       32 values to int8, see `activations`

    atomic_add(address, value) -> before; atomic_load; atomic_store;
    compare_exchange(address, expected, desired) -> before
    pause() cycle_counter() opaque(int64) call_kernel(kernel, thread, threads, op, context)
"""

from rase_models.backends.cpu.simd.arithmetic import (
    absolute,
    add,
    count_from,
    divide,
    even_lanes,
    first_lane,
    fma,
    fma_f32,
    interleave_high,
    interleave_low,
    keep_first,
    max_lanes,
    maximum,
    minimum,
    multiply,
    negate,
    odd_lanes,
    round_to_int,
    splat,
    square_root,
    subtract,
    sum_lanes,
    to_float,
)
from rase_models.backends.cpu.simd.exponential import exp, exp_f32, sigmoid, tanh
from rase_models.backends.cpu.simd.memory import (
    load_f16x16,
    load_f32,
    load_f32x16,
    load_f64,
    load_i32,
    load_i64,
    prefetch,
    store_f16,
    store_f16x16,
    store_f32,
    store_f32x16,
    store_f64,
    store_i32,
    store_i32x16,
    store_i64,
)
from rase_models.backends.cpu.simd.operation import (
    compiled,
    compiled_for_python,
    f32,
    f32x16,
    f64,
    i32,
    i32x16,
    i64,
    operation,
    void,
)
from rase_models.backends.cpu.simd.processor import (
    atomic_add,
    atomic_load,
    atomic_store,
    call_kernel,
    compare_exchange,
    cycle_counter,
    opaque,
    pause,
)
from rase_models.backends.cpu.simd.quantisation import quantise32

__all__ = [
    "absolute",
    "add",
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "call_kernel",
    "compare_exchange",
    "compiled",
    "compiled_for_python",
    "count_from",
    "cycle_counter",
    "divide",
    "even_lanes",
    "exp",
    "exp_f32",
    "f32",
    "f32x16",
    "f64",
    "first_lane",
    "fma",
    "fma_f32",
    "i32",
    "i32x16",
    "i64",
    "interleave_high",
    "interleave_low",
    "keep_first",
    "load_f16x16",
    "load_f32",
    "load_f32x16",
    "load_f64",
    "load_i32",
    "load_i64",
    "max_lanes",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "odd_lanes",
    "opaque",
    "operation",
    "pause",
    "prefetch",
    "quantise32",
    "round_to_int",
    "sigmoid",
    "splat",
    "square_root",
    "store_f16",
    "store_f16x16",
    "store_f32",
    "store_f32x16",
    "store_f64",
    "store_i32",
    "store_i32x16",
    "store_i64",
    "subtract",
    "sum_lanes",
    "tanh",
    "to_float",
    "void",
]
