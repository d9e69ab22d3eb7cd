"""The LLVM types of the kernels, and constants of them. A vector has 16 lanes on every instruction set."""

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

Value: TypeAlias = ir.Value
"""A value of the emitted code."""

LANES = 16

VOID = ir.VoidType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
F32X16 = ir.VectorType(F32, LANES)
F64X16 = ir.VectorType(F64, LANES)
I64X16 = ir.VectorType(I64, LANES)
I32X16 = ir.VectorType(I32, LANES)
I16X16 = ir.VectorType(I16, LANES)
I8X16 = ir.VectorType(I8, LANES)
F16X16 = ir.VectorType(F16, LANES)
I8X64 = ir.VectorType(I8, 64)
I16X32 = ir.VectorType(I16, 32)


def vector(element: ir.Type, lanes: int) -> ir.Type:
    """Return the type of a vector."""
    return ir.VectorType(element, lanes)


def constant(type_: ir.Type, value: float | Sequence[float]) -> ir.Constant:
    """Make a constant; one value given for a vector fills all lanes."""
    if isinstance(type_, ir.VectorType) and not isinstance(value, Sequence):
        return ir.Constant(type_, [value] * type_.count)
    return ir.Constant(type_, list(value) if isinstance(value, Sequence) else value)


def every_byte(type_: ir.Type, byte: int) -> ir.Constant:
    """Make an int32 constant, scalar or vector, with all bytes equal."""
    return constant(type_, int.from_bytes(bytes([byte] * 4), "little", signed=True))


def retype(type_: ir.Type, element: ir.Type) -> ir.Type:
    """Return `element`, or a vector of it with as many lanes as `type_` when that is a vector."""
    return ir.VectorType(element, type_.count) if isinstance(type_, ir.VectorType) else element
