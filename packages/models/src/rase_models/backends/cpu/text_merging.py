"""Merges texts by the costs of pairs in compiled code, as SentencePiece's BPE does."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import KernelLibrary, kernel_library
from rase_models.backends.cpu.text_abi import (
    BYTES,
    COSTS,
    FIRST_ID,
    JOINT,
    MEMORY_BYTES,
    MERGING_BYTES,
    MOST_IDS,
    PAIR_ODD,
    PAIR_SHIFT,
    PAIRS,
    PIECES,
    UNKNOWN,
)
from rase_models.backends.cpu.text_encoding import TextEncoding
from rase_models.backends.cpu.text_index import INDEX_KERNEL, TextIndex, random_base
from rase_models.backends.cpu.words import Words
from rase_models.tokenizers.merge_table import (
    NEIGHBOUR_ODD,
    NEIGHBOUR_SHIFT,
    MergeTable,
    code_points,
    neighbours,
    separated,
)

_MERGE_KERNEL = KernelKey("merge_text")
_ID = "\ud800"  # which no text has


class TextMerging:
    """The merging of one vocabulary; may be used from many threads. Knows llvmlite, and numba to compile."""

    def __init__(self, table: MergeTable, progress: Progress | None = None) -> None:
        library = kernel_library()
        library.require([INDEX_KERNEL, _MERGE_KERNEL], progress)
        pairs = separated(table.pairs)
        pieces, costs = self._indexes = _indexes(library, table, pairs)
        settings: Words = {
            PIECES: pieces.address,
            COSTS: costs.address,
            JOINT: ord(table.joint) if table.joint else 0,
            PAIRS: np.packbits(neighbours(pairs, table.joint).hashed(), bitorder="little"),
            PAIR_ODD: NEIGHBOUR_ODD,
            PAIR_SHIFT: NEIGHBOUR_SHIFT,
            BYTES: np.ascontiguousarray(table.byte_ids, np.int32),
            UNKNOWN: -1 if table.unknown is None else table.unknown,
        }
        self._encoding = TextEncoding(
            _MERGE_KERNEL,
            settings,
            MERGING_BYTES,
            memory_bytes=MEMORY_BYTES,
            most_ids=MOST_IDS,
            progress=progress,
        )

    def ids(self, parts: Sequence[int | str]) -> list[int] | None:
        """Return the ids of the parts of a text, of which integers are ids already.

        No two texts are neighbours. Returns None where no token stands for a part of one.
        """
        return self._encoding.ids(_codes(parts))


def _codes(parts: Sequence[int | str]) -> NDArray[np.uint32]:
    """Return the code points of the parts, uint32 [n], an id being one above FIRST_ID."""
    codes = code_points("".join(_ID if isinstance(part, int) else part for part in parts))
    ids = [part for part in parts if isinstance(part, int)]
    if ids:
        codes = codes.copy()
        codes[codes == ord(_ID)] = FIRST_ID + np.array(ids, np.uint32)
    return codes


def _indexes(
    library: KernelLibrary, table: MergeTable, pairs: NDArray[np.uint32]
) -> tuple[TextIndex, TextIndex]:
    """Return the index of the tokens and that of the pairs."""
    base = random_base()
    ids = np.where(table.is_text, np.arange(len(table.tokens), dtype=np.int32), np.int32(-1))
    if table.pairs is table.tokens:
        pieces = TextIndex(library, table.tokens, pairs, ids, base)
        return pieces, pieces.with_values(table.ranks)
    pieces = TextIndex(library, table.tokens, separated(table.tokens), ids, base)
    return pieces, TextIndex(library, table.pairs, pairs, table.ranks, base)
