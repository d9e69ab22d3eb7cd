"""Loads and stores at raw addresses (int64). Alignment is the element's; vectors may lie anywhere."""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import (
    F32,
    F32X16,
    I8,
    I8X16,
    I16,
    I16X16,
    I32,
    I32X16,
    I64,
    Value,
)
from rase_models.backends.cpu.simd.operation import f32, f32x16, i32, i32x16, i64, operation, void


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


@operation(i64, i64)
def load_u64(code: Code, address: Value) -> Value:
    """Load 8 bytes at any alignment."""
    return code.load(address, I64)


@operation(void, i64, i64)
def store_u64(code: Code, address: Value, value: Value) -> None:
    """Store 8 bytes at any alignment."""
    code.store(address, value)


@operation(i64, i64)
def load_u32(code: Code, address: Value) -> Value:
    """Load 4 bytes at any alignment as an int64 that is not negative."""
    return code.builder.zext(code.load(address, I32), I64)


@operation(void, i64, i64)
def store_u32(code: Code, address: Value, value: Value) -> None:
    """Store the low 4 bytes at any alignment."""
    code.store(address, code.builder.trunc(value, I32))


@operation(i64, i64)
def load_u16(code: Code, address: Value) -> Value:
    """Load 2 bytes at any alignment as an int64 that is not negative."""
    return code.builder.zext(code.load(address, I16), I64)


@operation(void, i64, i64)
def store_u16(code: Code, address: Value, value: Value) -> None:
    """Store the low 2 bytes at any alignment."""
    code.store(address, code.builder.trunc(value, I16))


@operation(i64, i64)
def load_u8(code: Code, address: Value) -> Value:
    """Load a byte as 0..255."""
    return code.builder.zext(code.load(address, I8), I64)


@operation(i64, i64)
def load_i8(code: Code, address: Value) -> Value:
    """Load a byte as -128..127."""
    return code.builder.sext(code.load(address, I8), I64)


@operation(void, i64, i64)
def store_u8(code: Code, address: Value, value: Value) -> None:
    """Store the low byte."""
    code.store(address, code.builder.trunc(value, I8))


@operation(f32, i64)
def load_f32(code: Code, address: Value) -> Value:
    """Load a float32."""
    return code.load(address, F32, 4)


@operation(void, i64, f32)
def store_f32(code: Code, address: Value, value: Value) -> None:
    """Store a float32."""
    code.store(address, value, 4)


@operation(f32, i64)
def load_f16(code: Code, address: Value) -> Value:
    """Load a float16 as float32."""
    return code.half_to_float(code.load(address, I16))


@operation(void, i64, f32)
def store_f16(code: Code, address: Value, value: Value) -> None:
    """Store a float32 as float16, rounded half to even."""
    code.store(address, code.float_to_half(value))


@operation(f32, i64)
def load_bf16(code: Code, address: Value) -> Value:
    """Load a bfloat16 as float32."""
    return code.bfloat_to_float(code.load(address, I16))


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


@operation(f32x16, i64)
def load_bf16x16(code: Code, address: Value) -> Value:
    """Load 16 bfloat16 as float32."""
    return code.bfloat_to_float(code.load(address, I16X16))


@operation(i32x16, i64)
def load_i32x16(code: Code, address: Value) -> Value:
    """Load 16 int32."""
    return code.load(address, I32X16)


@operation(void, i64, i32x16)
def store_i32x16(code: Code, address: Value, value: Value) -> None:
    """Store 16 int32."""
    code.store(address, value)


@operation(i32x16, i64)
def load_i8x16(code: Code, address: Value) -> Value:
    """Load 16 signed bytes as int32."""
    return code.builder.sext(code.load(address, I8X16), I32X16)


@operation(void, i64, i32x16)
def store_i8x16(code: Code, address: Value, value: Value) -> None:
    """Store the low bytes of 16 int32."""
    code.store(address, code.builder.trunc(value, I8X16))


@operation(void, i64)
def prefetch(code: Code, address: Value) -> None:
    """Ask for the cache line at an address, close to the core."""
    code.prefetch(address, 3)


@operation(void, i64)
def prefetch_far(code: Code, address: Value) -> None:
    """Ask for the cache line at an address into the second level."""
    code.prefetch(address, 2)
