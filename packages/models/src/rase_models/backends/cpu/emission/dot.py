"""Dot products of 8-bit integers, 4 a lane: the one place where instruction sets differ.

Every function adds to 16 int32 lanes the exact sums of 4 products each, so all of them give the same bits.
The 4 weights and the 4 activations (-127..127) of a lane are the bytes of an int32.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I1, I8, I16, LANES, Value, constant, vector

Columns = Iterable[tuple[Value, Sequence[Value]]]
"""Vectors of weights, each with the activations of every row that it is multiplied with."""
Dots = Callable[[Code, Sequence[Value], Columns, int, bool], Sequence[Value]]
"""(code, totals, columns, bits, signed) -> totals; see `add_products`."""
Dot = Callable[[Code, Value, Value, Value], Value]
"""(code, total, weights, activations) -> total."""


def add_products(
    code: Code, totals: Sequence[Value], columns: Columns, bits: int, signed: bool
) -> Sequence[Value]:
    """Add to each row's total (i32x16) its dot products with all weights, vector after vector.

    Weights are -128..127 if `signed`, else 0..2**bits - 1 with at most 7 bits, or 8 where the instruction set
    takes those.
    """
    return DOTS[code.instruction_set.int8_dot](code, totals, columns, bits, signed)


def _one_by_one(dot: Dot) -> Dots:
    def emit(
        code: Code, totals: Sequence[Value], columns: Columns, bits: int, signed: bool
    ) -> Sequence[Value]:
        for weights, rows in columns:
            totals = [dot(code, total, weights, row) for total, row in zip(totals, rows, strict=True)]
        return totals

    return emit


def _in_parts(code: Code, width: int, emit: Callable[..., Value], *vectors: Value) -> Value:
    """Apply an operation on `width` lanes to vectors of 16."""
    parts = [emit(*(code.part(whole, width, index) for whole in vectors)) for index in range(LANES // width)]
    return code.join(parts)


def _vpdpbusd(width: int) -> Dot:
    def emit(code: Code, *operands: Value) -> Value:
        ints = operands[0].type
        # Bytes since LLVM 22, which accepts this older form, too.
        return code.call(f"llvm.x86.avx512.vpdpbusd.{32 * ints.count}", ints, operands)

    return lambda code, *operands: _in_parts(code, width, lambda *parts: emit(code, *parts), *operands)


def _sdot(code: Code, total: Value, weights: Value, activations: Value) -> Value:
    def emit(total: Value, *operands: Value) -> Value:
        octets = [code.builder.bitcast(operand, vector(I8, 16)) for operand in operands]
        return code.call("llvm.aarch64.neon.sdot.v4i32.v16i8", total.type, [total, *octets])

    return _in_parts(code, 4, emit, total, weights, activations)


def _shifts(code: Code, total: Value, weights: Value, activations: Value) -> Value:
    """Multiply the odd and the even bytes as int16, where products of 128 * 127 fit."""
    b = code.builder
    shorts, ints = vector(I16, 2 * LANES), total.type
    eight, sixteen = constant(shorts, 8), constant(ints, 16)
    w, x = b.bitcast(weights, shorts), b.bitcast(activations, shorts)
    for products in (
        b.mul(b.ashr(w, eight), b.ashr(x, eight)),
        b.mul(b.ashr(b.shl(w, eight), eight), b.ashr(b.shl(x, eight), eight)),
    ):
        pair = b.bitcast(products, ints)
        total = b.add(total, b.add(b.ashr(pair, sixteen), b.ashr(b.shl(pair, sixteen), sixteen)))
    return total


def _pmaddubsw(
    code: Code, totals: Sequence[Value], columns: Columns, bits: int, signed: bool
) -> Sequence[Value]:
    """Add pairs of products in int16 as long as they cannot overflow, then in int32."""
    largest_pair = 2 * 127 * (128 if signed else (1 << bits) - 1)
    room = 0x7FFF // largest_pair
    pairs: list[Value] = []
    held = 0
    for weights, rows in columns:
        products = [_pairs(code, weights, row, signed) for row in rows]
        pairs = [code.builder.add(*both) for both in zip(pairs, products, strict=True)] if held else products
        held += 1
        if held == room:
            totals, held = _add_pairs(code, totals, pairs), 0
    return _add_pairs(code, totals, pairs) if held else totals


def _pairs(code: Code, weights: Value, activations: Value, signed: bool) -> Value:
    """Multiply bytes and add them in pairs; signed weights as |w| times x with the sign of w."""

    def emit(*operands: Value) -> Value:
        w, x = (code.builder.bitcast(operand, vector(I8, 32)) for operand in operands)
        if signed:
            x = code.call("llvm.x86.avx2.psign.b", x.type, [x, w])
            w = code.call("llvm.abs.v32i8", w.type, [w, constant(I1, 0)])
        return code.call("llvm.x86.avx2.pmadd.ub.sw", vector(I16, 16), [w, x])

    return _in_parts(code, 8, emit, weights, activations)


def _add_pairs(code: Code, totals: Sequence[Value], pairs: Sequence[Value]) -> list[Value]:
    results = []
    for total, pair in zip(totals, pairs, strict=True):
        halves = [code.part(pair, 16, index) for index in range(2)]
        ones = constant(halves[0].type, 1)
        ints = vector(total.type.element, 8)
        sums = [code.call("llvm.x86.avx2.pmadd.wd", ints, [half, ones]) for half in halves]
        results.append(code.builder.add(total, code.join(sums)))
    return results


DOTS: Mapping[str, Dots] = {
    "vpdpbusd_512": _one_by_one(_vpdpbusd(16)),
    "vpdpbusd_256": _one_by_one(_vpdpbusd(8)),
    "pmaddubsw": _pmaddubsw,
    "sdot": _one_by_one(_sdot),
    "shifts": _one_by_one(_shifts),
}
"""Emitters by `InstructionSet.int8_dot`."""
