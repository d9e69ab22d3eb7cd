"""Texts that become others, character by character, in compiled code."""

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu.abi import WORD
from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.paging import paged
from rase_models.backends.cpu.trie_abi import (
    CHARACTER_PAGES,
    CHARACTERS,
    GOES,
    IS_SPACE,
    IS_WORD,
    REPLACEMENT_BYTES,
    REPLACEMENTS,
    REPLACING_BYTES,
    SOURCE,
    SOURCE_BYTES,
    STAYS,
    TARGET,
    TARGET_BYTES,
    TEXTS_FROM,
    UNIT_COUNT,
    UNITS,
)
from rase_models.backends.cpu.words import Words, words_of


class Replacing:
    """What a kernel makes of texts; may be used from many threads."""

    def __init__(self, kernel: str, settings: Words, progress: Progress | None) -> None:
        library, key = kernel_library(), KernelKey(kernel)
        library.require([key], progress)
        self._kernel, self._kept = library.entry(key), settings
        self._words = words_of(settings, REPLACING_BYTES)

    def of(self, data: bytes) -> bytes | None:
        """Return what becomes of a text of UTF-8; None where that cannot be told."""
        room = 3 * len(data)
        while True:
            found, size = self._replaced(data, room)
            if size <= room:
                return None if size < 0 else found[:size].tobytes()
            room = size

    def _replaced(self, data: bytes, room: int) -> tuple[NDArray[np.uint8], int]:
        """Return what becomes of a text as far as there is room for it, and how many bytes it has in all."""
        source, target, words = np.frombuffer(data, np.uint8), np.empty(room, np.uint8), self._words.copy()
        words[SOURCE // WORD], words[SOURCE_BYTES // WORD] = source.ctypes.data, len(data)
        words[TARGET // WORD], words[TARGET_BYTES // WORD] = target.ctypes.data, room
        self._kernel(0, 1, int(words.ctypes.data), 0)
        return target, int(words[TARGET_BYTES // WORD])


def by_double_array(units: Sequence[int], texts: bytes, progress: Progress | None = None) -> Replacing:
    """Return SentencePiece's normalisation (see `charsmap`)."""
    settings: Words = {
        UNITS: np.array(units, np.uint32),
        UNIT_COUNT: len(units),
        REPLACEMENTS: np.frombuffer(texts + b"\0", np.uint8),
        REPLACEMENT_BYTES: len(texts),
    }
    return Replacing("replace_characters", settings, progress)


def by_words(
    kinds: NDArray[np.uint8], texts: Mapping[int, str], *, sorts: bool, progress: Progress | None = None
) -> Replacing:
    """Return BERT's normalisation: `kinds` as in `word_characters`, and the texts of those that ask.

    `sorts` tells whether marks side by side are sorted.
    """
    meanings = np.array([STAYS, GOES, IS_SPACE, IS_WORD, STAYS], np.int32)[kinds]
    written, end = list[bytes](), 0
    for code, text in texts.items():
        is_mark = sorts and any(map(unicodedata.combining, text))
        meanings[code] = -(TEXTS_FROM + end) if is_mark else TEXTS_FROM + end
        written.append(text.encode() + b"\0")
        end += len(written[-1])
    pages, characters = paged(meanings)
    settings: Words = {
        CHARACTER_PAGES: pages,
        CHARACTERS: characters,
        REPLACEMENTS: np.frombuffer(b"".join(written) + b"\0", np.uint8),
        REPLACEMENT_BYTES: end,
    }
    return Replacing("spell_words", settings, progress)
