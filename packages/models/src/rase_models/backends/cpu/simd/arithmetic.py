"""Arithmetic on 16 lanes, with one rounding an operation, and reductions in one fixed order."""

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import F32X16, I32, I32X16, LANES, Value, constant
from rase_models.backends.cpu.simd.operation import f32, f32x16, i32x16, i64, operation


@operation(f32x16, f32)
def splat(code: Code, value: Value) -> Value:
    """Fill all lanes with one float32."""
    return code.splat(value)


@operation(f32x16, f32)
def count_from(code: Code, first: Value) -> Value:
    """Return first, first + 1, ... first + 15."""
    return code.builder.fadd(code.splat(first), constant(F32X16, [float(lane) for lane in range(LANES)]))


@operation(f32, f32x16)
def first_lane(code: Code, vector: Value) -> Value:
    """Return lane 0."""
    return code.lane(vector, 0)


@operation(f32x16, f32x16, f32x16)
def add(code: Code, x: Value, y: Value) -> Value:
    """Return x + y."""
    return code.builder.fadd(x, y)


@operation(f32x16, f32x16, f32x16)
def subtract(code: Code, x: Value, y: Value) -> Value:
    """Return x - y."""
    return code.builder.fsub(x, y)


@operation(f32x16, f32x16, f32x16)
def multiply(code: Code, x: Value, y: Value) -> Value:
    """Return x * y."""
    return code.builder.fmul(x, y)


@operation(f32x16, f32x16, f32x16)
def divide(code: Code, x: Value, y: Value) -> Value:
    """Return x / y."""
    return code.builder.fdiv(x, y)


@operation(f32x16, f32x16, f32x16, f32x16)
def fma(code: Code, x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z with one rounding."""
    return code.fma(x, y, z)


@operation(f32, f32, f32, f32)
def fma_f32(code: Code, x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z of single numbers with one rounding."""
    return code.fma(x, y, z)


@operation(f32x16, f32x16, f32x16)
def maximum(code: Code, x: Value, y: Value) -> Value:
    """Return the larger of each lane; y's where one is not a number."""
    return code.maximum(x, y)


@operation(f32x16, f32x16, f32x16)
def minimum(code: Code, x: Value, y: Value) -> Value:
    """Return the smaller of each lane; y's where one is not a number."""
    return code.minimum(x, y)


@operation(f32x16, f32x16)
def absolute(code: Code, x: Value) -> Value:
    """Return |x|."""
    return code.absolute(x)


@operation(f32x16, f32x16)
def negate(code: Code, x: Value) -> Value:
    """Return -x."""
    return code.builder.fneg(x)


@operation(f32x16, f32x16)
def square_root(code: Code, x: Value) -> Value:
    """Return the square root, correctly rounded."""
    return code.call("llvm.sqrt.v16f32", F32X16, [x])


@operation(f32, f32x16)
def sum_lanes(code: Code, vector: Value) -> Value:
    """Add the lanes, halves onto each other: (l0 + l8) + (l4 + l12) and so on."""
    return code.fold(vector, code.builder.fadd)


@operation(f32, f32x16)
def max_lanes(code: Code, vector: Value) -> Value:
    """Return the largest lane."""
    return code.fold(vector, code.maximum)


@operation(i32x16, f32x16)
def round_to_int(code: Code, x: Value) -> Value:
    """Round half to even to int32; magnitudes under 2**22."""
    return code.round_to_int(x)


@operation(f32x16, i32x16)
def to_float(code: Code, x: Value) -> Value:
    """Convert int32 to float32."""
    return code.to_float(x)


@operation(f32x16, f32x16, i64, f32)
def keep_first(code: Code, vector: Value, count: Value, fill: Value) -> Value:
    """Return `vector` with every lane from `count` on (any int64 within int32) replaced by `fill`."""
    b = code.builder
    inside = b.icmp_signed("<", constant(I32X16, range(LANES)), code.splat(b.trunc(count, I32)))
    return b.select(inside, vector, code.splat(fill))


@operation(f32x16, f32x16, f32x16)
def even_lanes(code: Code, first: Value, second: Value) -> Value:
    """Return lanes 0, 2, ... 30 of two vectors."""
    return code.shuffle(first, second, range(0, 2 * LANES, 2))


@operation(f32x16, f32x16, f32x16)
def odd_lanes(code: Code, first: Value, second: Value) -> Value:
    """Return lanes 1, 3, ... 31 of two vectors."""
    return code.shuffle(first, second, range(1, 2 * LANES, 2))


@operation(f32x16, f32x16, f32x16)
def interleave_low(code: Code, even: Value, odd: Value) -> Value:
    """Return even[0], odd[0], ... even[7], odd[7]."""
    return code.shuffle(even, odd, [lane // 2 + LANES * (lane % 2) for lane in range(LANES)])


@operation(f32x16, f32x16, f32x16)
def interleave_high(code: Code, even: Value, odd: Value) -> Value:
    """Return even[8], odd[8], ... even[15], odd[15]."""
    return code.shuffle(even, odd, [8 + lane // 2 + LANES * (lane % 2) for lane in range(LANES)])
