"""The words that a kernel of texts is given: numbers, and the addresses of arrays."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rase_models.backends.cpu.abi import WORD

Words: TypeAlias = Mapping[int, int | NDArray[np.generic]]
"""By byte offset; the arrays must live as long as the kernel is called."""


def words_of(values: Words, size: int) -> NDArray[np.int64]:
    """Return so many bytes of words, int64; those without a value are 0."""
    words = np.zeros(size // WORD, np.int64)
    for offset, value in values.items():
        words[offset // WORD] = value if isinstance(value, int) else value.ctypes.data
    return words
