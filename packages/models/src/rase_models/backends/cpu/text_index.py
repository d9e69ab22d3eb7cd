"""An index of texts in memory that compiled code looks into."""

import secrets
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary
from rase_models.backends.cpu.text_abi import (
    BASE,
    CODES,
    COUNT,
    INDEX_BYTES,
    LONGEST,
    MASK,
    PRIME,
    SLOTS,
    STARTS,
    VALUES,
)
from rase_models.backends.cpu.words import Words, words_of

INDEX_KERNEL = KernelKey("index_texts")
_FIRST_BASE = 1 << 21  # above all code points
_SLOTS_PER_TEXT = 2


def random_base() -> int:
    """Return a base for hashes, so that nobody can make texts of one hash beforehand."""
    return _FIRST_BASE + secrets.randbelow(PRIME - _FIRST_BASE)


class TextIndex:
    """Texts and what each means, int32, where it is not negative; of equal texts the first one counts."""

    def __init__(
        self,
        library: KernelLibrary,
        texts: Sequence[str],
        codes: NDArray[np.uint32],
        values: NDArray[np.int32],
        base: int,
    ) -> None:
        """`codes` are those of the texts, one after the other, with one more after each but the last."""
        starts = np.zeros(len(texts) + 1, np.int32)
        lengths = np.fromiter(map(len, texts), np.int32, len(texts))
        np.cumsum(lengths + 1, out=starts[1:])
        slots = np.zeros(1 << max(_SLOTS_PER_TEXT * len(texts), 1).bit_length(), np.int64)
        self._kept: Words = {
            SLOTS: slots,
            MASK: len(slots) - 1,
            CODES: codes,
            STARTS: starts,
            VALUES: np.ascontiguousarray(values, np.int32),
            COUNT: len(texts),
            LONGEST: int(lengths.max(initial=0)),
            BASE: base,
        }
        self._words = words_of(self._kept, INDEX_BYTES)
        library.entry(INDEX_KERNEL)(0, 1, self.address, 0)

    def with_values(self, values: NDArray[np.int32]) -> Self:
        """Return an index of the same texts, which mean something else."""
        other = object.__new__(type(self))
        other._kept = {**self._kept, VALUES: np.ascontiguousarray(values, np.int32)}
        other._words = words_of(other._kept, INDEX_BYTES)
        return other

    @property
    def address(self) -> int:
        """The address of the index; good as long as the object lives."""
        return int(self._words.ctypes.data)
