"""WordPiece: the longest token that a word begins with, then the longest that goes on with it."""

from typing import Any

from rase_models.backends.cpu.encoding_abi import IDS, LENGTH, TEXT, WRITTEN
from rase_models.backends.cpu.kernels.token_trie import child, value_at
from rase_models.backends.cpu.simd import compiled, load_i64, store_i32, store_i64
from rase_models.backends.cpu.simd.text import load_u8
from rase_models.backends.cpu.trie_abi import MOST_CHARACTERS, TRIE, UNKNOWN

_SPACE = 0x20


@compiled
def _end_of_word(start: int, end: int) -> int:
    while start < end and load_u8(start) != _SPACE:
        start += 1
    return start


@compiled
def _characters(start: int, end: int) -> int:
    count = 0
    for at in range(start, end):
        count += 1 if load_u8(at) & 0xC0 != 0x80 else 0
    return count


@compiled
def _write_longest(op: int, start: int, end: int, out: int) -> int:
    """Write the tokens of a word; returns where they end, or -1 where it has none."""
    trie, root = load_i64(op + TRIE), 0
    while start < end:
        node, found, stop = root, -1, start
        for at in range(start, end):
            node = child(trie, node, load_u8(at))
            if node == 0:
                break
            token = value_at(trie, node)
            if token >= 0:
                found, stop = token, at + 1
        if found < 0:
            return -1
        store_i32(out, found)
        out, start, root = out + 4, stop, 1
    return out


@compiled
def _write(op: int, start: int, end: int, out: int) -> int:
    """Write the tokens of a word or else the unknown one; returns where they end, or -1."""
    if _characters(start, end) <= load_i64(op + MOST_CHARACTERS):
        written = _write_longest(op, start, end, out)
        if written > 0:
            return written
    unknown = load_i64(op + UNKNOWN)
    if unknown < 0:
        return -1
    store_i32(out, unknown)
    return out + 4


def longest_tokens() -> Any:
    """Build the kernel that writes the ids of the words of a text, with spaces between them."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        start, out = load_i64(op + TEXT), load_i64(op + IDS)
        end = start + load_i64(op + LENGTH)
        while start < end and out >= 0:
            stop = _end_of_word(start, end)
            if start < stop:
                out = _write(op, start, stop, out)
            start = stop + 1
        store_i64(op + WRITTEN, -1 if out < 0 else (out - load_i64(op + IDS)) >> 2)

    return kernel
