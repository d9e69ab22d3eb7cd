"""Cutting of texts into words by automata."""

from rase_models.backends.cpu.byte_abi import (
    ASCII,
    BLOCKS,
    CUTS,
    END_CLASS,
    ENDS,
    ENDS_BYTES,
    PAGE_BITS,
    PAGES,
    PART_COUNT,
    PARTS,
    START_STATE,
    TABLES,
    TEXT,
)
from rase_models.backends.cpu.kernels.utf8 import code_point, width_of
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32
from rase_models.backends.cpu.simd.text import load_u8


@compiled
def _wide_class(op: int, address: int) -> int:
    """Return the class of a character of several bytes."""
    code = code_point(address)
    block = int(load_i32(load_i64(op + PAGES) + 4 * (code >> PAGE_BITS)))
    return int(load_u8(load_i64(op + BLOCKS) + block + (code & ((1 << PAGE_BITS) - 1))))


@compiled
def _match(op: int, table: int, start: int, end: int) -> int:
    """Return the address after the longest of what matters most and begins at an address; that where none."""
    state, at, found = load_i64(op + START_STATE), start, start
    while at < end:
        first = load_u8(at)
        if first < 0x80:
            entry = int(load_i32(table + 4 * (state + load_u8(load_i64(op + ASCII) + first))))
            width = 1
        else:
            entry = int(load_i32(table + 4 * (state + _wide_class(op, at))))
            width = width_of(first)
        if entry & 1:
            found = at
        state = entry >> 1
        if state == 0:
            return found
        at += width
    entry = int(load_i32(table + 4 * (state + load_i64(op + END_CLASS))))
    return at if entry & 1 else found


@compiled
def _cut(op: int, table: int, start: int, end: int, out: int) -> int:
    """Write where the words of a part end, relative to the text; returns where that ends."""
    text = load_i64(op + TEXT)
    at = first = start
    while at < end:
        stop = _match(op, table, at, end)
        if stop == at:
            at += width_of(load_u8(at))
            continue
        if first < at:
            store_i32(out, at - text)
            out += 4
        store_i32(out, stop - text)
        out += 4
        at = first = stop
    if first < end:
        store_i32(out, end - text)
        out += 4
    return out


@compiled
def _cut_all(op: int, table: int, parts: int, count: int, out: int) -> int:
    """Write where the words of all parts end, and the ids between them; returns where that ends."""
    text, start = load_i64(op + TEXT), 0
    for part in range(count):
        end = int(load_i32(parts + 4 * part))
        if end < 0:
            store_i32(out, end)
            out += 4
        else:
            out = _cut(op, table, text + start, text + end, out)
            start = end
    return out


@compiled
def last_ends(op: int) -> int:
    """Return the address of the ends of words that `cut` writes."""
    return int(load_i64(op + ENDS) + (load_i64(op + CUTS) - 1 & 1) * load_i64(op + ENDS_BYTES))


@compiled
def cut(op: int) -> int:
    """Cut a text by all automata; returns the number of its words and ids."""
    parts, count = load_i64(op + PARTS), load_i64(op + PART_COUNT)
    for number in range(load_i64(op + CUTS)):
        table = load_i64(load_i64(op + TABLES) + 8 * number)
        out = load_i64(op + ENDS) + (number & 1) * load_i64(op + ENDS_BYTES)
        count = _cut_all(op, table, parts, count, out) - out >> 2
        parts = out
    return int(count)
