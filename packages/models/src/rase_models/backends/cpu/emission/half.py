"""float16 conversions: instructions where the target has them, else exact integer arithmetic.

LLVM would call a library function that may not be linked.
"""

from typing import TYPE_CHECKING

from llvmlite import ir

from rase_models.backends.cpu.emission.types import F16, F32, I16, I32, Value, constant, retype

if TYPE_CHECKING:
    from rase_models.backends.cpu.emission.code import Code

_INFINITY = 0x7F800000
_HALF_OVERFLOW = 0x477FF000  # 65520, the least value that rounds to infinity
_HALF_NORMAL = 0x38800000  # 2**-14
_HALF_DENORMAL_MAGIC = 0x3F000000  # 0.5, whose last bit is worth 2**-24, the least float16


def to_float(code: "Code", x: Value) -> Value:
    """Convert float16 bits (int16, scalar or vector) to float32, exactly."""
    b = code.builder
    floats, ints = retype(x.type, F32), retype(x.type, I32)
    if code.instruction_set.has_half:
        return b.fpext(b.bitcast(x, retype(x.type, F16)), floats)
    wide = b.zext(x, ints)
    magnitude = b.shl(b.and_(wide, constant(ints, 0x7FFF)), constant(ints, 13))
    scaled = b.bitcast(b.fmul(b.bitcast(magnitude, floats), constant(floats, 2.0**112)), ints)
    special = b.icmp_signed(">=", magnitude, constant(ints, 0x7C00 << 13))
    scaled = b.select(special, b.or_(magnitude, constant(ints, _INFINITY)), scaled)
    sign = b.shl(b.and_(wide, constant(ints, 0x8000)), constant(ints, 16))
    return b.bitcast(b.or_(scaled, sign), floats)


def from_float(code: "Code", x: Value) -> Value:
    """Round float32 (scalar or vector) half to even to float16 bits (int16)."""
    b = code.builder
    ints, shorts = retype(x.type, I32), retype(x.type, I16)
    if code.instruction_set.has_half:
        return b.bitcast(b.fptrunc(x, retype(x.type, F16)), shorts)
    pattern = b.bitcast(x, ints)
    magnitude = b.and_(pattern, constant(ints, 0x7FFFFFFF))
    result = _normal(b, magnitude, ints)
    small = b.icmp_signed("<", magnitude, constant(ints, _HALF_NORMAL))
    result = b.select(small, _denormal(b, magnitude, ints, x.type), result)
    large = b.icmp_signed(">=", magnitude, constant(ints, _HALF_OVERFLOW))
    nan = b.icmp_signed(">", magnitude, constant(ints, _INFINITY))
    result = b.select(large, b.select(nan, constant(ints, 0x7E00), constant(ints, 0x7C00)), result)
    sign = b.and_(b.lshr(pattern, constant(ints, 16)), constant(ints, 0x8000))
    return b.trunc(b.or_(result, sign), shorts)


def _normal(b: ir.IRBuilder, magnitude: Value, ints: ir.Type) -> Value:
    """Move the exponent and round away 13 bits; the carry may reach infinity."""
    odd = b.and_(b.lshr(magnitude, constant(ints, 13)), constant(ints, 1))
    moved = b.add(magnitude, constant(ints, ((15 - 127) << 23) + 0xFFF))
    return b.lshr(b.add(moved, odd), constant(ints, 13))


def _denormal(b: ir.IRBuilder, magnitude: Value, ints: ir.Type, floats: ir.Type) -> Value:
    """Let a float addition round at the last bit of a float16 denormal."""
    magic = b.bitcast(constant(ints, _HALF_DENORMAL_MAGIC), floats)
    total = b.fadd(b.bitcast(magnitude, floats), magic)
    return b.sub(b.bitcast(total, ints), constant(ints, _HALF_DENORMAL_MAGIC))
