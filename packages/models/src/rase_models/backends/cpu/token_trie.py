"""A tree of tokens in memory that compiled code walks, and what walks it."""

import secrets
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rase_core.progress import Progress

from rase_models.backends.cpu.kernel_key import KernelKey
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.text_encoding import TextEncoding
from rase_models.backends.cpu.trie_abi import (
    COUNT,
    CUTS,
    DATA,
    EDGE_MASK,
    EDGES,
    ENCODING_BYTES,
    MEMORY_BYTES,
    MOST_CHARACTERS,
    NODE_BITS,
    NODES,
    ODD,
    SCORES,
    STARTS,
    TREES,
    TRIE,
    TRIE_BYTES,
    UNKNOWN,
    UNKNOWN_SCORE,
    VALUES,
)
from rase_models.backends.cpu.words import Words, words_of

_GROW_KERNEL = KernelKey("grow_trie")
_MOST_BYTES = 1 << 29
"""Of a text, so that all places are int32."""


class TokenTrie:
    """The beginnings of tokens that there is room for."""

    def __init__(
        self, tokens: Sequence[bytes], trees: NDArray[np.int32], roots: int, progress: Progress | None
    ) -> None:
        """`trees` is the root of each token, below `roots`, or -1; of equal tokens the first one counts."""
        starts = np.zeros(len(tokens) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, tokens), np.int32, len(tokens)), out=starts[1:])
        nodes = int(starts[-1]) + roots
        edges = np.zeros(1 << (nodes + nodes // 4).bit_length(), np.int64)
        self._kept: Words = {
            EDGES: edges,
            EDGE_MASK: len(edges) - 1,
            ODD: secrets.randbits(62) | 1,
            VALUES: np.full(nodes, -1, np.int32),
            NODES: roots,
            DATA: np.frombuffer(b"".join(tokens) + b"\0", np.uint8),
            STARTS: starts,
            COUNT: len(tokens),
            TREES: np.ascontiguousarray(trees, np.int32),
        }
        self._words = words_of(self._kept, TRIE_BYTES)
        library = kernel_library()
        library.require([_GROW_KERNEL], progress)
        library.entry(_GROW_KERNEL)(0, 1, self.address, 0)

    @staticmethod
    def has_room_for(tokens: Iterable[bytes]) -> bool:
        """Tell whether all beginnings of tokens can be numbered, besides two roots."""
        return sum(map(len, tokens)) + 2 < 1 << NODE_BITS

    @property
    def address(self) -> int:
        """The address of the tree; good as long as the object lives."""
        return int(self._words.ctypes.data)


class TrieEncoding:
    """The encoding of texts by a kernel that walks a tree; may be used from many threads."""

    def __init__(self, kernel: str, trie: TokenTrie, settings: Words, progress: Progress | None) -> None:
        self._trie = trie
        self._encoding = TextEncoding(
            KernelKey(kernel),
            {TRIE: trie.address, **settings},
            ENCODING_BYTES,
            memory_bytes=MEMORY_BYTES,
            most_ids=1,
            progress=progress,
        )

    def ids(self, data: bytes) -> list[int] | None:
        """Return the ids of a text of UTF-8; None where a part of it has none, or it is too long for this."""
        return None if len(data) > _MOST_BYTES else self._encoding.ids(np.frombuffer(data, np.uint8))


def likeliest_tokens(
    tokens: Sequence[bytes],
    trees: NDArray[np.int32],
    scores: NDArray[np.float64],
    unknown: int | None,
    unknown_score: float,
    *,
    cuts: bool,
    progress: Progress | None,
) -> TrieEncoding | None:
    """Return Unigram's encoding; `trees` is 0, or -1 for tokens that text does not become.

    `cuts` makes `▁` begin a text of its own. Returns None for tokens that there is no room for.
    """
    if not TokenTrie.has_room_for(tokens):
        return None
    settings: Words = {
        UNKNOWN: -1 if unknown is None else unknown,
        SCORES: np.ascontiguousarray(scores, np.float64),
        UNKNOWN_SCORE: np.array([unknown_score], np.float64),
        CUTS: int(cuts),
    }
    return TrieEncoding("likeliest_tokens", TokenTrie(tokens, trees, 1, progress), settings, progress)


def longest_tokens(
    tokens: Sequence[bytes],
    trees: NDArray[np.int32],
    unknown: int | None,
    most_characters: int,
    progress: Progress | None,
) -> TrieEncoding | None:
    """Return WordPiece's encoding of words with spaces between them.

    `trees` is 0 for tokens that begin words, 1 for those that go on with them and -1 for others. Returns None
    for tokens that there is no room for.
    """
    if not TokenTrie.has_room_for(tokens):
        return None
    settings: Words = {UNKNOWN: -1 if unknown is None else unknown, MOST_CHARACTERS: most_characters}
    return TrieEncoding("longest_tokens", TokenTrie(tokens, trees, 2, progress), settings, progress)
