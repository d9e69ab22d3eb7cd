"""WordPiece: the characters of a text become those of words, with spaces between them."""

from typing import Any

from rase_models.backends.cpu.byte_abi import PAGE_BITS
from rase_models.backends.cpu.kernels.replacing import put, put_replacement, put_text
from rase_models.backends.cpu.kernels.utf8 import code_point, width_of
from rase_models.backends.cpu.simd import compiled, load_i32, load_i64, store_i64
from rase_models.backends.cpu.simd.text import load_u8
from rase_models.backends.cpu.trie_abi import (
    CHARACTER_PAGES,
    CHARACTERS,
    GOES,
    IS_SPACE,
    REPLACEMENTS,
    SOURCE,
    SOURCE_BYTES,
    STAYS,
    TARGET_BYTES,
    TEXTS_FROM,
)

_SPACE = 0x20


@compiled
def _meaning(op: int, code: int) -> int:
    page = int(load_i32(load_i64(op + CHARACTER_PAGES) + 4 * (code >> PAGE_BITS)))
    return int(load_i32(load_i64(op + CHARACTERS) + 4 * (page + (code & ((1 << PAGE_BITS) - 1)))))


@compiled
def _put_character(op: int, address: int, written: int) -> int:
    return put_text(op, address, address + width_of(load_u8(address)), written)


@compiled
def _spell(op: int, address: int, meaning: int, written: int) -> int:
    """Write what becomes of a character; returns how many bytes there are then."""
    if meaning >= TEXTS_FROM:
        return put_replacement(op, meaning - TEXTS_FROM, written)
    if meaning == IS_SPACE:
        return put(op, written, _SPACE)
    if meaning == STAYS:
        return _put_character(op, address, written)
    if meaning == GOES:
        return written
    written = _put_character(op, address, put(op, written, _SPACE))
    return put(op, written, _SPACE)


@compiled
def _is_nothing(op: int, meaning: int) -> bool:
    if meaning < TEXTS_FROM:
        return meaning == GOES
    return bool(load_u8(load_i64(op + REPLACEMENTS) + meaning - TEXTS_FROM) == 0)


def spell_words() -> Any:
    """Build the kernel that writes the words of a text; a negative size where marks may change places."""

    def kernel(thread: int, threads: int, op: int, context: int) -> None:
        start, written, follows_mark = load_i64(op + SOURCE), 0, False
        end = start + load_i64(op + SOURCE_BYTES)
        while start < end:
            meaning = _meaning(op, code_point(start))
            if meaning < 0:
                if follows_mark:
                    written = -1
                    break
                follows_mark, meaning = True, -meaning
            elif not _is_nothing(op, meaning):
                follows_mark = False
            written = _spell(op, start, meaning, written)
            start += width_of(load_u8(start))
        store_i64(op + TARGET_BYTES, written)

    return kernel
