"""What ranking logits needs: their order as integers, and their shares of the probability."""

from llvmlite import ir

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import (
    F32X16,
    F64,
    I16,
    I32X16,
    I64,
    LANES,
    Value,
    constant,
    vector,
)
from rase_models.backends.cpu.simd.operation import f32, f64, i32, i64, operation, void

_MAGNITUDE, _EXPONENT = 2**31 - 1, 0x7F800000
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_COEFFICIENTS = tuple(1.0 / factorial for factorial in (
    6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1,
))  # fmt: skip
_LEAST = -745.0
"""As in `rase_core.sampling.exponential`."""
_DOUBLE_MAGIC = 6755399441055744.0
"""1.5 * 2**52: adding it to |x| < 2**51 leaves x rounded half to even in the low bits."""
_EXPONENT_BIAS, _FRACTION_BITS = 1023, 52
_SPARE_EXPONENT = 200
"""Shares are first made so many powers of two too large, so that very small ones are rounded once, too."""


def _lanes_set(code: Code, flags: Value) -> Value:
    return code.builder.zext(code.builder.bitcast(flags, I16), I64)


@operation(i64, i64, i32)
def lanes_above(code: Code, address: Value, limit: Value) -> Value:
    """Return a bit for each of 16 float32 whose order among all float32, as an int32, is above a limit."""
    b = code.builder
    bits = code.load(address, I32X16)
    negative = b.sub(constant(I32X16, 0), b.and_(bits, constant(I32X16, _MAGNITUDE)))
    order = b.select(b.icmp_signed("<", bits, constant(I32X16, 0)), negative, bits)
    return _lanes_set(code, b.icmp_signed(">", order, code.splat(limit)))


@operation(i64, i64)
def lanes_infinite(code: Code, address: Value) -> Value:
    """Return a bit for each of 16 float32 that is infinite or not a number."""
    b, exponent = code.builder, constant(I32X16, _EXPONENT)
    bits = b.and_(code.load(address, I32X16), exponent)
    return _lanes_set(code, b.icmp_signed("==", bits, exponent))


def _shares(code: Code, x: Value) -> Value:
    """Return e to the power of float64 <= 0, minus infinity too, with the bits of core's `exponential`."""
    b, wide = code.builder, x.type

    def number(value: float) -> ir.Constant:
        return constant(wide, value)

    counts = b.fcmp_ordered(">=", x, number(_LEAST))
    x = b.select(counts, x, number(_LEAST))
    shifted = b.fadd(b.fmul(x, number(_LOG2_E)), number(_DOUBLE_MAGIC))
    k = b.fsub(shifted, number(_DOUBLE_MAGIC))
    r = b.fsub(b.fsub(x, b.fmul(k, number(_LN2_HIGH))), b.fmul(k, number(_LN2_LOW)))
    share = number(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        share = b.fadd(b.fmul(share, r), number(coefficient))
    integers = vector(I64, LANES)
    exponents = b.add(b.bitcast(shifted, integers), constant(integers, _EXPONENT_BIAS + _SPARE_EXPONENT))
    power = b.bitcast(b.shl(exponents, constant(integers, _FRACTION_BITS)), wide)
    share = b.fmul(b.fmul(share, power), number(2.0**-_SPARE_EXPONENT))
    return b.select(counts, share, number(0.0))


def _below(code: Code, values: Value, most: Value) -> Value:
    """Return 16 float32 less the largest of all, as float64."""
    b, wide = code.builder, vector(F64, LANES)
    return b.fsub(b.fpext(code.load(values, F32X16), wide), code.splat(b.fpext(most, F64)))


@operation(void, i64, i64, f32)
def add_shares(code: Code, sums: Value, values: Value, most: Value) -> None:
    """Add e to the power of 16 float32 less the largest of all to 16 float64 at `sums`."""
    shares = _shares(code, _below(code, values, most))
    code.store(sums, code.builder.fadd(code.load(sums, shares.type, 8), shares), 8)


@operation(void, i64, i64, f32, f64)
def store_shares(code: Code, shares: Value, values: Value, most: Value, temperature: Value) -> None:
    """Store e to the power of 16 float32 less the largest of all, over a temperature, as float64."""
    below = code.builder.fdiv(_below(code, values, most), code.splat(temperature))
    code.store(shares, _shares(code, below), 8)
