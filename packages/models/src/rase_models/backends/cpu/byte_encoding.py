"""Byte-level BPE in compiled code: automata cut a text into words, and the bytes of each word merge."""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu.abi import WORD
from rase_models.backends.cpu.byte_abi import (
    ASCII,
    BLOCKS,
    BYTE_IDS,
    BYTE_PAIRS,
    COUNT,
    CUTS,
    DATA,
    ENCODING_BYTES,
    END_CLASS,
    ID_BITS,
    IS_TEXT,
    LONGEST,
    MEMORY_BYTES,
    MERGE_COUNT,
    MERGES,
    ODD,
    PADDING,
    PAGES,
    PAIR_MASK,
    PAIRS,
    RANK_BITS,
    SLOT_MASK,
    SLOTS,
    START_STATE,
    STARTS,
    TABLES,
    TAKES_WHOLE,
    TEXT,
    WRITTEN,
)
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.paging import paged
from rase_models.backends.cpu.words import Words, words_of
from rase_models.tokenizers.automaton import Automata
from rase_models.tokenizers.byte_table import ByteTable

_INDEX_KERNEL, _ENCODE_KERNEL = KernelKey("index_bytes"), KernelKey("encode_bytes")
_MOST_BYTES = 1 << 29
"""Of a text, so that all places are int32."""

_CALL = slice(TEXT // WORD, WRITTEN // WORD + 1)
"""The words of one text: TEXT, PARTS, PART_COUNT, ENDS, ENDS_BYTES, IDS, MEMORY, WRITTEN."""


class ByteEncoding:
    """The encoding of one vocabulary; may be used from many threads. Knows llvmlite, and numba to compile."""

    def __init__(self, table: ByteTable, automata: Automata, progress: Progress | None = None) -> None:
        library = kernel_library()
        library.require([_INDEX_KERNEL, _ENCODE_KERNEL], progress)
        self._kernel = library.entry(_ENCODE_KERNEL)
        self._kept, self._automata = {**_cutting_words(automata), **_merging_words(table)}, automata
        self._words = words_of(self._kept, ENCODING_BYTES)
        library.entry(_INDEX_KERNEL)(0, 1, int(self._words.ctypes.data), 0)

    @staticmethod
    def has_room_for(tokens: int, merges: int) -> bool:
        """Tell whether ids and ranks of so many are in the range of the tables here."""
        return tokens <= 1 << ID_BITS and merges < (1 << RANK_BITS) - 1

    def ids(self, parts: Sequence[int | str]) -> list[int] | None:
        """Return the ids of the parts of a text, of which integers are ids already.

        Returns None where a byte has no token, and for a text that is too long for this.
        """
        text, ends = _text(parts)
        if len(text) > _MOST_BYTES:
            return None
        words, half = len(self._words), (len(parts) + len(text)) // 2 + 1
        # One piece of memory; the last part of it is touched only as far as words are long.
        memory = np.empty(words + 4 * half + MEMORY_BYTES // WORD * len(text), np.int64)
        start = int(memory.ctypes.data)
        places = [start + WORD * (words + number * half) for number in range(5)]
        memory[:words] = self._words
        memory[_CALL] = (
            np.frombuffer(text, np.uint8).ctypes.data,
            places[0],
            len(parts),
            places[1],
            WORD * half,
            places[3],
            places[4],
            0,
        )
        numbers = memory.view(np.int32)
        numbers[2 * words : 2 * words + len(parts)] = ends
        self._kernel(0, 1, start, 0)
        written, first = int(memory[WRITTEN // WORD]), 2 * (words + 3 * half)
        found: list[int] | None = None if written < 0 else numbers[first : first + written].tolist()
        return found


def _text(parts: Sequence[int | str]) -> tuple[bytes, list[int]]:
    """Return the bytes of the texts, and where each part ends in them; for an id -1 - id."""
    data, ends, end = list[bytes](), list[int](), 0
    for part in parts:
        if isinstance(part, int):
            ends.append(-1 - part)
        else:
            data.append(part.encode())
            end += len(data[-1])
            ends.append(end)
    data.append(bytes(PADDING))
    return b"".join(data), ends


def _cutting_words(automata: Automata) -> Words:
    pages, blocks = paged(automata.classes)
    return {
        ASCII: automata.classes[:128],
        PAGES: pages,
        BLOCKS: blocks,
        END_CLASS: automata.start - 1,
        START_STATE: automata.start,
        TABLES: np.array([table.ctypes.data for table in automata.transitions], np.int64),
        CUTS: len(automata.transitions),
    }


def _merging_words(table: ByteTable) -> Words:
    tokens, merges = table.tokens, table.merges
    slots = _slots(len(tokens.is_text))
    pairs = _slots(merges.shape[1])
    return {
        SLOTS: slots,
        SLOT_MASK: len(slots) - 1,
        DATA: np.append(tokens.data, np.zeros(PADDING, np.uint8)),
        STARTS: tokens.starts,
        COUNT: len(tokens.is_text),
        IS_TEXT: tokens.is_text,
        LONGEST: int(np.diff(tokens.starts).max(initial=1)) - 1,
        PAIRS: pairs,
        PAIR_MASK: len(pairs) - 1,
        MERGES: np.ascontiguousarray(merges),
        MERGE_COUNT: merges.shape[1],
        BYTE_IDS: table.byte_ids,
        BYTE_PAIRS: np.empty(1 << 16, np.int32),
        ODD: secrets.randbits(62) | 1,
        TAKES_WHOLE: int(table.takes_whole),
    }


def _slots(count: int) -> NDArray[np.int64]:
    """Return an empty table for so many entries, which is half full with them at most."""
    return np.zeros(1 << max(2 * count, 1).bit_length(), np.int64)
