"""Looking up bytes in a table of 16, by a shuffle instruction where there is one."""

from collections.abc import Callable, Mapping, Sequence

from rase_models.backends.cpu.emission.code import Code
from rase_models.backends.cpu.emission.types import I8, Value, constant, vector

Lookup = Callable[[Code, Value, Sequence[int]], Value]


def lookup(code: Code, indices: Value, table: Sequence[int]) -> Value:
    """Replace each byte 0..15 of 16 int32 by the entry of `table` (0..255) with that index."""
    b = code.builder
    found = LOOKUPS[code.instruction_set.lookup](code, b.bitcast(indices, vector(I8, 64)), table)
    return b.bitcast(found, indices.type)


def _shuffle(name: str, width: int) -> Lookup:
    """Make a lookup out of an instruction on `width` bytes that picks within groups of 16."""

    def emit(code: Code, indices: Value, table: Sequence[int]) -> Value:
        entries = constant(vector(I8, width), list(table) * (width // 16))
        parts = [code.part(indices, width, index) for index in range(64 // width)]
        return code.join([code.call(name, entries.type, [entries, part]) for part in parts])

    return emit


def _selects(code: Code, indices: Value, table: Sequence[int]) -> Value:
    b = code.builder
    result = constant(indices.type, table[0])
    for index, entry in enumerate(table[1:], start=1):
        found = b.icmp_signed("==", indices, constant(indices.type, index))
        result = b.select(found, constant(indices.type, entry), result)
    return result


LOOKUPS: Mapping[str, Lookup] = {
    "pshufb_512": _shuffle("llvm.x86.avx512.pshuf.b.512", 64),
    "pshufb_256": _shuffle("llvm.x86.avx2.pshuf.b", 32),
    "tbl": _shuffle("llvm.aarch64.neon.tbl1.v16i8", 16),
    "selects": _selects,
}
"""Emitters by `InstructionSet.lookup`."""
