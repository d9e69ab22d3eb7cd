"""Byte-level BPE: GPT-2's scheme, where each byte is written as one printable character."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rase_core.errors import UnencodableText
from rase_core.progress import Progress

from rase_models.tokenizers.automaton import automata
from rase_models.tokenizers.byte_table import ByteTable, byte_merges, byte_tokens
from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.library import library_ids
from rase_models.tokenizers.merging_library import merging_library, one_after_the_other, splits_of
from rase_models.tokenizers.pre_tokenizers import PreTokenizer
from rase_models.tokenizers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

    from rase_models.backends.cpu.byte_encoding import ByteEncoding

_PRINTABLE = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
CHARACTER_OF_BYTE = {**{b: chr(b) for b in _PRINTABLE}, **{b: chr(256 + i) for i, b in enumerate(_OTHERS)}}
CHARACTERS = [CHARACTER_OF_BYTE[byte] for byte in range(256)]
BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
_NEVER_IN_UTF8 = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))


class ByteLevelBpe:
    """The merging of one vocabulary; TokenizerError naming `tokenizer.ggml.merges` when they do not fit."""

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[str], pre: PreTokenizer) -> None:
        self._vocabulary, self._merges, self._pre = vocabulary, merges, pre
        self._merge_ids = byte_merges(vocabulary, merges)
        self._byte_ids = _byte_ids(vocabulary)
        self._missing = _missing_bytes(self._byte_ids)
        self._compiled: ByteEncoding | None = None

    def compile(self, progress: Progress | None = None) -> None:
        """Encode by compiled code from now on, where there is a compiler; it gives the same ids, sooner.

        Some pre-tokenizers cut in ways that are left to the library.
        """
        cutting = automata(self._pre.splits)
        if cutting is None:
            return
        try:
            from rase_models.backends.cpu.byte_encoding import ByteEncoding
        except ImportError:
            return
        if ByteEncoding.has_room_for(len(self._vocabulary.tokens), self._merge_ids.shape[1]):
            self._compiled = ByteEncoding(self._table(), cutting, progress)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a byte that no token stands for.
        """
        if self._compiled is None:
            return in_turn(parts, self._ids)
        listed = list(parts)
        ids = self._compiled.ids(listed)
        return in_turn(listed, self._ids) if ids is None else ids  # which names what has no token

    def _ids(self, text: str) -> list[int]:
        if self._missing and (lost := self._missing.search(text.encode())):
            raise UnencodableText(f"the byte 0x{lost[0].hex()}")
        return library_ids(self._library, text, add_special_tokens=False)

    @cached_property
    def _library(self) -> "Library":
        from tokenizers.pre_tokenizers import ByteLevel

        library = merging_library(self._vocabulary, self._merges, self._pre)
        steps = (*splits_of(self._pre), ByteLevel(add_prefix_space=False, use_regex=False))
        library.pre_tokenizer = one_after_the_other(steps)
        return library

    def _table(self) -> ByteTable:
        known = {byte: CHARACTERS[byte] for byte in np.flatnonzero(self._byte_ids >= 0).tolist()}
        tokens = byte_tokens(self._vocabulary, known)
        return ByteTable(tokens, self._merge_ids, self._byte_ids, self._pre.ignore_merges)


def byte_level_bytes(token: str) -> bytes:
    """Return the bytes that a token spells; a token with other characters stands for its own text."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode("utf-8", "surrogateescape")


def _byte_ids(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Return the token of each byte, int32 [256], -1 where there is none that text may become."""
    special = frozenset(vocabulary.of_kind(TokenKind.CONTROL, TokenKind.UNKNOWN))
    ids = [vocabulary.ids.get(character, -1) for character in CHARACTERS]
    return np.array([-1 if i in special else i for i in ids], np.int32)


def _missing_bytes(byte_ids: NDArray[np.int32]) -> re.Pattern[bytes] | None:
    """Return a pattern of the bytes that text may have and no token stands for."""
    lost = [byte for byte in np.flatnonzero(byte_ids < 0).tolist() if byte not in _NEVER_IN_UTF8]
    return re.compile(b"[" + b"".join(re.escape(bytes([b])) for b in lost) + b"]") if lost else None
