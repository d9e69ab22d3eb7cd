"""Byte-level BPE: texts are cut into words, and the bytes of each word merge, the first merge first."""

from typing import Any

from rase_models.backends.cpu.byte_abi import (
    BYTE_IDS,
    BYTE_PAIRS,
    IDS,
    MEMORY,
    MERGE_COUNT,
    MERGES,
    NO_RANK,
    TEXT,
    WRITTEN,
)
from rase_models.backends.cpu.kernels.byte_index import (
    IS_NOT_WHOLE,
    IS_WHOLE,
    TOKEN_BITS,
    rank_of,
    slot_of,
)
from rase_models.backends.cpu.kernels.symbols import END, VALUE, get, merge, put
from rase_models.backends.cpu.kernels.text_cutting import cut, last_ends
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32, store_i64
from rase_models.backends.cpu.simd.text import load_u8

_SHORT = 64
"""Bytes of a word in which the first merge is looked for one by one."""

_ID = VALUE


@compiled
def _joined(op: int, rank: int) -> int:
    return int(load_i32(load_i64(op + MERGES) + 4 * (2 * load_i64(op + MERGE_COUNT) + rank)))


@compiled
def _split(op: int, word: int, length: int, ids: int, ranks: int) -> bool:
    """Write the ids of bytes and the ranks of neighbours; returns whether all have an id."""
    known, pairs, before, missing = load_i64(op + BYTE_IDS), load_i64(op + BYTE_PAIRS), 0, 0
    for at in range(length):
        byte = load_u8(word + at)
        token = load_i32(known + 4 * byte)
        missing |= int(token)
        store_i32(ids + 4 * at, token)
        if at > 0:
            store_i32(ranks + 4 * (at - 1), load_i32(pairs + 4 * (before << 8 | byte)))
        before = byte
    return missing >= 0


@compiled
def _first(ranks: int, count: int) -> int:
    """Return the place of the lowest rank, the first of equal ones."""
    place, least = 0, load_i32(ranks)
    for at in range(1, count):
        rank = load_i32(ranks + 4 * at)
        if rank < least:
            place, least = at, rank
    return place


@compiled
def _close(values: int, place: int, count: int) -> None:
    """Take one of so many int32 values out."""
    for at in range(place, count - 1):
        store_i32(values + 4 * at, load_i32(values + 4 * (at + 1)))


@compiled
def _merge_short(op: int, ids: int, ranks: int, count: int) -> int:
    """Merge symbols until no two can; returns how many are left."""
    while count > 1:
        place = _first(ranks, count - 1)
        rank = int(load_i32(ranks + 4 * place))
        if rank == NO_RANK:
            break
        token = _joined(op, rank)
        _close(ids, place, count)
        _close(ranks, place, count - 1)
        store_i32(ids + 4 * place, token)
        count -= 1
        if place > 0:
            store_i32(ranks + 4 * (place - 1), rank_of(op, int(load_i32(ids + 4 * (place - 1))), token))
        if place < count - 1:
            store_i32(ranks + 4 * place, rank_of(op, token, int(load_i32(ids + 4 * (place + 1)))))
    return count


@compiled
def _rank_of(op: int, word: int, memory: int, left: int, right: int) -> int:
    rank = rank_of(op, get(memory, left, _ID), get(memory, right, _ID))
    return -1 if rank == NO_RANK else rank


@compiled
def _join(op: int, memory: int, left: int, right: int, rank: int) -> None:
    put(memory, left, _ID, _joined(op, rank))


@compiled
def _merge_long(op: int, word: int, length: int, memory: int) -> bool:
    """Merge the symbols of a word until no two can; returns whether all bytes have an id."""
    known, missing = load_i64(op + BYTE_IDS), 0
    for at in range(length):
        token = int(load_i32(known + 4 * load_u8(word + at)))
        missing |= token
        put(memory, at, _ID, token)
    if missing >= 0:
        merge(op, word, length, memory, _rank_of, _join)
    return missing >= 0


@compiled
def _write_long(op: int, word: int, length: int, out: int) -> int:
    """Write the ids of a long word; returns where they end, or -1."""
    memory, at = load_i64(op + MEMORY), 0
    if not _merge_long(op, word, length, memory):
        return -1
    while at < length:
        store_i32(out, get(memory, at, _ID))
        out += 4
        at = get(memory, at, END)
    return out


@compiled
def _write_short(op: int, word: int, length: int, out: int) -> int:
    """Write the ids of a short word; returns where they end, or -1."""
    ranks = load_i64(op + MEMORY)
    if not _split(op, word, length, out, ranks):
        return -1
    return out + 4 * _merge_short(op, out, ranks, length)


@compiled
def _write(op: int, word: int, length: int, out: int) -> int:
    """Write the ids of a word; returns where they end, or -1 where a byte has none."""
    slot = slot_of(op, word, length)
    held = load_i64(slot) if slot > 0 else 0
    if held & IS_WHOLE:
        store_i32(out, (held & TOKEN_BITS) - 1)
        return out + 4
    end = _write_short(op, word, length, out) if length <= _SHORT else _write_long(op, word, length, out)
    if held != 0 and end > 0 and held & IS_NOT_WHOLE == 0:
        store_i64(slot, held | (IS_WHOLE if end == out + 4 else IS_NOT_WHOLE))
    return end


def encode_bytes() -> Any:
    """Build the kernel that writes the ids of a text and those between its parts."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        text, out, start = load_i64(op + TEXT), load_i64(op + IDS), 0
        count = cut(op)
        ends = last_ends(op)
        for number in range(count):
            end = int(load_i32(ends + 4 * number))
            if end < 0:
                store_i32(out, -1 - end)
                out += 4
                continue
            out = _write(op, text + start, end - start, out)
            if out < 0:
                break
            start = end
        store_i64(op + WRITTEN, -1 if out < 0 else (out - load_i64(op + IDS)) >> 2)

    return kernel
