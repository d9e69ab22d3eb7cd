"""Merging of texts: pairs of symbols become one, the cheapest pair first, the leftmost of equals."""

from typing import Any

from rase_models.backends.cpu.encoding_abi import IDS, LENGTH, MEMORY, TEXT, WRITTEN
from rase_models.backends.cpu.kernels.symbols import END, SECOND_VALUE, VALUE, get, merge, put
from rase_models.backends.cpu.kernels.text_index import code_at, hash_of, joined, times, value_of
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i32, store_i64
from rase_models.backends.cpu.text_abi import (
    BASE,
    BYTES,
    COSTS,
    FIRST_ID,
    JOINT,
    PAIR_ODD,
    PAIR_SHIFT,
    PAIRS,
    PIECES,
    UNKNOWN,
)

_HASH, _POWER = VALUE, SECOND_VALUE


@compiled
def _rank_of(op: int, word: int, memory: int, left: int, right: int) -> int:
    costs, joint = load_i64(op + COSTS), load_i64(op + JOINT)
    key = get(memory, left, _HASH)
    if joint > 0:
        key = joined(key, load_i64(costs + BASE), hash_of(joint))
    key = joined(key, get(memory, right, _POWER), get(memory, right, _HASH))
    return value_of(costs, key, word, left, right, get(memory, right, END), joint)


@compiled
def _join(op: int, memory: int, left: int, right: int, rank: int) -> None:
    power = get(memory, right, _POWER)
    put(memory, left, _HASH, joined(get(memory, left, _HASH), power, get(memory, right, _HASH)))
    put(memory, left, _POWER, times(get(memory, left, _POWER), power))


@compiled
def _split(op: int, word: int, length: int, memory: int) -> None:
    """Note what each code point is as a symbol."""
    base = load_i64(load_i64(op + COSTS) + BASE)
    for at in range(length):
        put(memory, at, _HASH, hash_of(code_at(word, at)))
        put(memory, at, _POWER, base)


@compiled
def _utf8(code: int, at: int) -> int:
    """Return a byte of a code point in UTF-8, or -1 after the last."""
    width = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    if at >= width:
        return -1
    if width == 1:
        return code
    bits = code >> 6 * (width - 1 - at)
    return (bits & 0x3F) | 0x80 if at > 0 else bits | (0xF00 >> width & 0xFF)


@compiled
def _write_bytes(op: int, word: int, start: int, end: int, out: int) -> int:
    """Write the tokens of the bytes of a symbol, else the unknown one; returns where they end, or -1."""
    ids, written = load_i64(op + BYTES), out
    for place in range(start, end):
        code = code_at(word, place)
        for at in range(4):
            byte = _utf8(code, at)
            if byte < 0:
                break
            token = int(load_i32(ids + 4 * byte))
            if token < 0:
                unknown = load_i64(op + UNKNOWN)
                if unknown < 0:
                    return -1
                store_i32(out, unknown)
                return out + 4
            store_i32(written, token)
            written += 4
    return written


@compiled
def _write(op: int, word: int, length: int, memory: int, out: int) -> int:
    """Write the ids of the symbols of a word; returns where they end, or -1."""
    pieces, start = load_i64(op + PIECES), 0
    while start < length and out >= 0:
        end = get(memory, start, END)
        token = value_of(pieces, get(memory, start, _HASH), word, start, -1, end, 0)
        if token >= 0:
            store_i32(out, token)
            out += 4
        else:
            out = _write_bytes(op, word, start, end, out)
        start = end
    return out


@compiled
def _is_pair(op: int, left: int, right: int) -> bool:
    """Tell whether something may merge between two code points."""
    if max(left, right) >= FIRST_ID:
        return False
    odd = load_i64(op + PAIR_ODD)
    place = (((left * odd + right) & 0xFFFFFFFF) * odd & 0xFFFFFFFF) >> load_i64(op + PAIR_SHIFT)
    bits = int(load_i32(load_i64(op + PAIRS) + (place >> 5 << 2)))
    return (bits >> int(place & 31)) & 1 == 1


@compiled
def _encode(op: int, word: int, length: int, memory: int, out: int) -> int:
    """Write the ids of a word, or the id that is in its place; returns where they end, or -1."""
    code = code_at(word, 0)
    if code >= FIRST_ID:
        store_i32(out, code - FIRST_ID)
        return out + 4
    _split(op, word, length, memory)
    merge(op, word, length, memory, _rank_of, _join)
    return _write(op, word, length, memory, out)


def merge_text() -> Any:
    """Build the kernel that writes the ids of a text, cut where nothing can merge."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        text, length, memory = load_i64(op + TEXT), load_i64(op + LENGTH), load_i64(op + MEMORY)
        first, out = 0, load_i64(op + IDS)
        for at in range(1, length + 1):
            if at < length and _is_pair(op, code_at(text, at - 1), code_at(text, at)):
                continue
            out = _encode(op, text + 4 * first, at - first, memory, out)
            if out < 0:
                break
            first = at
        store_i64(op + WRITTEN, -1 if out < 0 else (out - load_i64(op + IDS)) >> 2)

    return kernel
