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
from rase_models.backends.cpu.simd.operation import f32, i32, i64, operation, void

_MAGNITUDE, _EXPONENT = 2**31 - 1, 0x7F800000
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_COEFFICIENTS = tuple(1.0 / factorial for factorial in (
    6227020800, 479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1,
))  # fmt: skip
"""As in `rase_core.sampling.exponential`."""
_LEAST = -700.0
"""What is smaller than e to this power changes no sum that 1 is a part of."""
_DOUBLE_MAGIC = 6755399441055744.0
"""1.5 * 2**52: adding it to |x| < 2**51 leaves x rounded half to even in the low bits."""
_EXPONENT_BIAS, _FRACTION_BITS = 1023, 52


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


@operation(void, i64, i64, f32)
def add_shares(code: Code, sums: Value, values: Value, most: Value) -> None:
    """Add e to the power of 16 float32 less the largest of all to 16 float64 at `sums`.

    The bits are those of core's `exponential`; what is below e**-700 counts as nothing.
    """
    b, wide = code.builder, vector(F64, LANES)

    def number(value: float) -> ir.Constant:
        return constant(wide, value)

    x = b.fsub(b.fpext(code.load(values, F32X16), wide), code.splat(b.fpext(most, F64)))
    counts = b.fcmp_ordered(">=", x, number(_LEAST))
    x = b.select(counts, x, number(_LEAST))
    shifted = b.fadd(b.fmul(x, number(_LOG2_E)), number(_DOUBLE_MAGIC))
    k = b.fsub(shifted, number(_DOUBLE_MAGIC))
    r = b.fsub(b.fsub(x, b.fmul(k, number(_LN2_HIGH))), b.fmul(k, number(_LN2_LOW)))
    share = number(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        share = b.fadd(b.fmul(share, r), number(coefficient))
    exponents = b.add(b.bitcast(shifted, vector(I64, LANES)), constant(vector(I64, LANES), _EXPONENT_BIAS))
    power = b.bitcast(b.shl(exponents, constant(vector(I64, LANES), _FRACTION_BITS)), wide)
    share = b.select(counts, b.fmul(share, power), number(0.0))
    code.store(sums, b.fadd(code.load(sums, wide, 8), share), 8)
