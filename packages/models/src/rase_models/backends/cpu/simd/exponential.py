"""The exponential and what is made of it: the same bits on every instruction set and operating system."""

from llvmlite import ir

from rase_models.backends.cpu.emission.code import ROUNDING_MAGIC, Code
from rase_models.backends.cpu.emission.types import I32, Value, constant, retype
from rase_models.backends.cpu.simd.operation import f32, f32x16, operation

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693359375  # 355 / 512, so that n times it is exact
_LN2_LOW = -0.00021219444005469057
_LEAST, _MOST = -104.0, 89.0  # exp is 0 and infinity in float32 from there on
# (exp(r) - 1 - r) / r**2 on [-ln(2)/2, ln(2)/2], interpolated at Chebyshev nodes: exp within 1.1e-8.
_COEFFICIENTS = (
    0.0013926250394433737,
    0.00836323294788599,
    0.04166655242443085,
    0.16666576266288757,
    0.5,
)


def emit_exp(code: Code, x: Value) -> Value:
    """Emit exp of float32, scalar or vector: 2**n * exp(r) with x = n ln 2 + r."""
    b = code.builder

    def number(value: float) -> ir.Constant:
        return constant(x.type, value)

    x = b.select(b.fcmp_ordered("<", x, number(_LEAST)), number(_LEAST), x)
    x = b.select(b.fcmp_ordered(">", x, number(_MOST)), number(_MOST), x)
    shifted = code.fma(x, number(_LOG2_E), number(ROUNDING_MAGIC))
    n = b.fsub(shifted, number(ROUNDING_MAGIC))
    r = code.fma(n, number(-_LN2_LOW), code.fma(n, number(-_LN2_HIGH), x))
    tail = number(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        tail = code.fma(tail, r, number(coefficient))
    value = b.fadd(code.fma(tail, b.fmul(r, r), r), number(1.0))
    return _scale(code, value, code.round_to_int(n))


def _scale(code: Code, value: Value, n: Value) -> Value:
    """Multiply by 2**n in two steps, so that n from -208 to 254 works and ends in denormals or infinity."""
    b = code.builder
    ints = retype(value.type, I32)
    half = b.ashr(n, constant(ints, 1))
    for part in (half, b.sub(n, half)):
        power = b.shl(b.add(part, constant(ints, 127)), constant(ints, 23))
        value = b.fmul(value, b.bitcast(power, value.type))
    return value


@operation(f32x16, f32x16)
def exp(code: Code, x: Value) -> Value:
    """Return e**x of 16 lanes; 0 and infinity where float32 ends."""
    return emit_exp(code, x)


@operation(f32, f32)
def exp_f32(code: Code, x: Value) -> Value:
    """Return e**x of one number, with the same bits as a lane of `exp`."""
    return emit_exp(code, x)


@operation(f32x16, f32x16)
def sigmoid(code: Code, x: Value) -> Value:
    """Return 1 / (1 + e**-x)."""
    b = code.builder
    one = constant(x.type, 1.0)
    return b.fdiv(one, b.fadd(one, emit_exp(code, b.fneg(x))))


@operation(f32x16, f32x16)
def tanh(code: Code, x: Value) -> Value:
    """Return tanh(x) = 1 - 2 / (1 + e**2x); absolute error under 2e-7."""
    b = code.builder
    one = constant(x.type, 1.0)
    power = emit_exp(code, b.fadd(x, x))
    return b.fsub(one, b.fdiv(constant(x.type, 2.0), b.fadd(one, power)))
