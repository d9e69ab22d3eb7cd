"""Loads and stores of bytes at raw addresses (int64)."""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I8, I64, Value
from rase_models.backends.cpu.simd.operation import i64, operation, void


@operation(i64, i64)
def load_i64_anywhere(code: Code, address: Value) -> Value:
    """Load an int64 that need not be aligned."""
    return code.load(address, I64)


@operation(i64, i64)
def load_u8(code: Code, address: Value) -> Value:
    """Load a byte as int64."""
    return code.builder.zext(code.load(address, I8), I64)


@operation(void, i64, i64)
def store_u8(code: Code, address: Value, value: Value) -> None:
    """Store the lowest byte of an int64."""
    code.store(address, code.builder.trunc(value, I8))
