"""Loads and stores at raw addresses (int64). Alignment is the element's; vectors may lie anywhere."""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import (
    F32,
    F32X16,
    F64,
    I32,
    I64,
    Value,
)
from rase_models.backends.cpu.simd.operation import f32, f32x16, f64, i32, i32x16, i64, operation, void


@operation(i64, i64)
def load_i64(code: Code, address: Value) -> Value:
    """Load an int64."""
    return code.load(address, I64, 8)


@operation(void, i64, i64)
def store_i64(code: Code, address: Value, value: Value) -> None:
    """Store an int64."""
    code.store(address, value, 8)


@operation(i32, i64)
def load_i32(code: Code, address: Value) -> Value:
    """Load an int32."""
    return code.load(address, I32, 4)


@operation(void, i64, i32)
def store_i32(code: Code, address: Value, value: Value) -> None:
    """Store an int32."""
    code.store(address, value, 4)


@operation(f64, i64)
def load_f64(code: Code, address: Value) -> Value:
    """Load a float64."""
    return code.load(address, F64, 8)


@operation(void, i64, f64)
def store_f64(code: Code, address: Value, value: Value) -> None:
    """Store a float64."""
    code.store(address, value, 8)


@operation(f32, i64)
def load_f32(code: Code, address: Value) -> Value:
    """Load a float32."""
    return code.load(address, F32, 4)


@operation(void, i64, f32)
def store_f32(code: Code, address: Value, value: Value) -> None:
    """Store a float32."""
    code.store(address, value, 4)


@operation(void, i64, f32)
def store_f16(code: Code, address: Value, value: Value) -> None:
    """Store a float32 as float16, rounded half to even."""
    code.store(address, code.float_to_half(value))


@operation(f32x16, i64)
def load_f32x16(code: Code, address: Value) -> Value:
    """Load 16 float32."""
    return code.load(address, F32X16)


@operation(void, i64, f32x16)
def store_f32x16(code: Code, address: Value, value: Value) -> None:
    """Store 16 float32."""
    code.store(address, value)


@operation(f32x16, i64)
def load_f16x16(code: Code, address: Value) -> Value:
    """Load 16 float16 as float32."""
    return code.load_half(address)


@operation(void, i64, f32x16)
def store_f16x16(code: Code, address: Value, value: Value) -> None:
    """Store 16 float32 as float16, rounded half to even."""
    code.store(address, code.float_to_half(value))


@operation(void, i64, i32x16)
def store_i32x16(code: Code, address: Value, value: Value) -> None:
    """Store 16 int32."""
    code.store(address, value)


@operation(void, i64)
def prefetch(code: Code, address: Value) -> None:
    """Ask for the cache line at an address, close to the core."""
    code.prefetch(address, 3)
