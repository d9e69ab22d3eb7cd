"""Loads and stores at raw addresses (int64). Alignment is the element's; vectors may lie anywhere."""

from llvmlite import ir
from numba import types

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32, F32X16, F64, I32, I64, Value
from rase_models.backends.cpu.simd.operation import (
    Operation,
    f32,
    f32x16,
    f64,
    i32,
    i32x16,
    i64,
    operation,
    void,
)


def _load(result: types.Type, type_: ir.Type, alignment: int = 1) -> Operation:
    def load(code: Code, address: Value) -> Value:
        return code.load(address, type_, alignment)

    return operation(result, i64)(load)


def _store(given: types.Type, alignment: int = 1) -> Operation:
    def store(code: Code, address: Value, value: Value) -> None:
        code.store(address, value, alignment)

    return operation(void, i64, given)(store)


load_i64, load_f64 = _load(i64, I64, 8), _load(f64, F64, 8)
load_i32, load_f32 = _load(i32, I32, 4), _load(f32, F32, 4)
load_f32x16 = _load(f32x16, F32X16)
store_i64, store_f64 = _store(i64, 8), _store(f64, 8)
store_i32, store_f32 = _store(i32, 4), _store(f32, 4)
store_f32x16, store_i32x16 = _store(f32x16), _store(i32x16)


@operation(f32x16, i64)
def load_f16x16(code: Code, address: Value) -> Value:
    """Load 16 float16 as float32."""
    return code.load_half(address)


@operation(void, i64, f32x16)
def store_f16x16(code: Code, address: Value, value: Value) -> None:
    """Store 16 float32 as float16, rounded half to even."""
    code.store(address, code.float_to_half(value))


@operation(void, i64, f32)
def store_f16(code: Code, address: Value, value: Value) -> None:
    """Store a float32 as float16, rounded half to even."""
    code.store(address, code.float_to_half(value))


@operation(void, i64)
def prefetch(code: Code, address: Value) -> None:
    """Ask for the cache line at an address, close to the core."""
    code.prefetch(address, 3)
