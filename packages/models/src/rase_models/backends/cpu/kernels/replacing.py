"""SentencePiece's normalisation: the longest text that a double array knows becomes another one."""

from typing import Any

from rase_models.backends.cpu.kernels.utf8 import width_of
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i64
from rase_models.backends.cpu.simd.text import load_u8, store_u8
from rase_models.backends.cpu.trie_abi import (
    MOST_KNOWN_BYTES,
    REPLACEMENT_BYTES,
    REPLACEMENTS,
    SOURCE,
    SOURCE_BYTES,
    TARGET,
    TARGET_BYTES,
    UNIT_COUNT,
    UNITS,
)

_ENDS = 1 << 8
_LABEL = 1 << 31 | 0xFF
_VALUE = (1 << 31) - 1


@compiled
def _unit(op: int, node: int) -> int:
    if node >= load_i64(op + UNIT_COUNT):
        return 0
    return int(load_i32(load_i64(op + UNITS) + 4 * node)) & 0xFFFFFFFF


@compiled
def _offset(unit: int) -> int:
    """Return what leads from a node to its children."""
    return unit >> 10 << ((unit & 1 << 9) >> 6)


@compiled
def _longest(op: int, start: int, end: int) -> int:
    """Return the length of the longest text that fits << 32 | where its replacement begins; 0 for none."""
    found, children = 0, _offset(_unit(op, 0))
    for at in range(start, min(end, start + MOST_KNOWN_BYTES)):
        byte = load_u8(at)
        node = children ^ byte
        if byte == 0 or _unit(op, node) & _LABEL != byte:
            break
        children = node ^ _offset(_unit(op, node))
        if _unit(op, node) & _ENDS:
            found = (at + 1 - start) << 32 | _unit(op, children) & _VALUE
    return found


@compiled
def put(op: int, written: int, byte: int) -> int:
    """Write a byte if there is room for it; returns how many there are then."""
    if written < load_i64(op + TARGET_BYTES):
        store_u8(load_i64(op + TARGET) + written, byte)
    return written + 1


@compiled
def put_text(op: int, start: int, end: int, written: int) -> int:
    """Write the bytes between two addresses; returns how many there are then."""
    for at in range(start, end):
        written = put(op, written, load_u8(at))
    return written


@compiled
def put_replacement(op: int, start: int, written: int) -> int:
    """Write a replacement, unless nothing ends it in time."""
    texts, end = load_i64(op + REPLACEMENTS), start
    size = min(load_i64(op + REPLACEMENT_BYTES), start + MOST_KNOWN_BYTES)
    while end < size and load_u8(texts + end) != 0:
        end += 1
    return put_text(op, texts + start, texts + end, written) if end < size else written


def replace_characters() -> Any:
    """Build the kernel that writes what becomes of a text."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        start, written = load_i64(op + SOURCE), 0
        end = start + load_i64(op + SOURCE_BYTES)
        while start < end:
            found = _longest(op, start, end)
            if found > 0:
                written = put_replacement(op, found & _VALUE, written)
                start += found >> 32
            else:
                stop = min(start + width_of(load_u8(start)), end)  # what is known may end within a character
                written = put_text(op, start, stop, written)
                start = stop
        store_i64(op + TARGET_BYTES, written)

    return kernel
