"""Dot products of 8-bit integers, 4 a lane: the one place where instruction sets differ.

Every function adds to 16 int32 lanes the exact sums of 4 products each, so all of them give the same bits.
The 4 weights and the 4 activations (-127..127) of a lane are the bytes of an int32.
"""

from collections.abc import Callable, Mapping

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I1, I8, I16, Value, constant, vector

Dot = Callable[[Code, Value, Value, Value, bool], Value]


def dot(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
    """Return `total` (i32x16) plus the dot products of each lane's 4 weights and 4 activations.

    Weights are -128..127 if `signed`, else 0..127, or 0..255 where the instruction set takes those.
    """
    return DOTS[code.instruction_set.int8_dot](code, total, weights, activations, signed)


def _vpdpbusd(bits: int) -> Dot:
    def emit(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
        # Bytes since LLVM 22, which accepts this older form, too.
        return code.call(f"llvm.x86.avx512.vpdpbusd.{bits}", total.type, [total, weights, activations])

    return emit


def _in_parts(width: int, part_dot: Dot) -> Dot:
    """Make a dot product of 16 lanes out of one of `width` lanes."""

    def whole(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
        parts = [
            part_dot(
                code,
                code.part(total, width, index),
                code.part(weights, width, index),
                code.part(activations, width, index),
                signed,
            )
            for index in range(total.type.count // width)
        ]
        return code.join(parts)

    return whole


def _pmaddubsw(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
    """Multiply |w| by x with the sign of w: two products of at most 128 * 127 cannot overflow int16."""
    bytes_, shorts = vector(I8, 32), vector(I16, 16)
    weights, activations = code.builder.bitcast(weights, bytes_), code.builder.bitcast(activations, bytes_)
    if signed:
        activations = code.call("llvm.x86.avx2.psign.b", weights.type, [activations, weights])
        weights = code.call("llvm.abs.v32i8", weights.type, [weights, constant(I1, 0)])
    pairs = code.call("llvm.x86.avx2.pmadd.ub.sw", shorts, [weights, activations])
    sums = code.call("llvm.x86.avx2.pmadd.wd", total.type, [pairs, constant(shorts, 1)])
    return code.builder.add(total, sums)


def _sdot(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
    operands = [code.builder.bitcast(operand, vector(I8, 16)) for operand in (weights, activations)]
    return code.call("llvm.aarch64.neon.sdot.v4i32.v16i8", total.type, [total, *operands])


def _shifts(code: Code, total: Value, weights: Value, activations: Value, signed: bool) -> Value:
    """Multiply the odd and the even bytes as int16, where products of 128 * 127 fit."""
    b = code.builder
    shorts, ints = vector(I16, 2 * total.type.count), total.type
    eight, sixteen = constant(shorts, 8), constant(ints, 16)
    w, x = b.bitcast(weights, shorts), b.bitcast(activations, shorts)
    for products in (
        b.mul(b.ashr(w, eight), b.ashr(x, eight)),
        b.mul(b.ashr(b.shl(w, eight), eight), b.ashr(b.shl(x, eight), eight)),
    ):
        pair = b.bitcast(products, ints)
        total = b.add(total, b.add(b.ashr(pair, sixteen), b.ashr(b.shl(pair, sixteen), sixteen)))
    return total


DOTS: Mapping[str, Dot] = {
    "vpdpbusd_512": _vpdpbusd(512),
    "vpdpbusd_256": _in_parts(8, _vpdpbusd(256)),
    "pmaddubsw": _in_parts(8, _pmaddubsw),
    "sdot": _in_parts(4, _sdot),
    "shifts": _shifts,
}
"""Emitters by `InstructionSet.int8_dot`."""
