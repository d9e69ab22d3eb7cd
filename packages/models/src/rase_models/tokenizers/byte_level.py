"""Byte-level BPE: GPT-2's scheme, where each byte is written as one printable character."""

import re
from collections.abc import Iterable, Sequence

from rase_core.errors import UnencodableText

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.library import library_ids
from rase_models.tokenizers.merging_library import merging_library, one_after_the_other, splits_of
from rase_models.tokenizers.pre_tokenizers import PreTokenizer
from rase_models.tokenizers.vocabulary import Vocabulary

_PRINTABLE = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
CHARACTER_OF_BYTE = {**{b: chr(b) for b in _PRINTABLE}, **{b: chr(256 + i) for i, b in enumerate(_OTHERS)}}
BYTE_OF_CHARACTER = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
_NEVER_IN_UTF8 = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))


class ByteLevelBpe:
    """The merging of one vocabulary; TokenizerError naming `tokenizer.ggml.merges` when they do not fit."""

    def __init__(self, vocabulary: Vocabulary, merges: Sequence[str], pre: PreTokenizer) -> None:
        from tokenizers.pre_tokenizers import ByteLevel

        self._missing = _missing_bytes(vocabulary)
        self._library = merging_library(vocabulary, merges, pre)
        steps = (*splits_of(pre), ByteLevel(add_prefix_space=False, use_regex=False))
        self._library.pre_tokenizer = one_after_the_other(steps)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a byte that no token stands for.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        if self._missing and (lost := self._missing.search(text.encode())):
            raise UnencodableText(f"the byte 0x{lost[0].hex()}")
        return library_ids(self._library, text, add_special_tokens=False)


def byte_level_bytes(token: str) -> bytes:
    """Return the bytes that a token spells; a token with other characters stands for its own text."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode("utf-8", "surrogateescape")


def _missing_bytes(vocabulary: Vocabulary) -> re.Pattern[bytes] | None:
    """Return a pattern of the bytes that text may have and no token stands for."""
    known = vocabulary.writable()
    lost = [b for b, c in CHARACTER_OF_BYTE.items() if c not in known and b not in _NEVER_IN_UTF8]
    return re.compile(b"[" + b"".join(re.escape(bytes([b])) for b in lost) + b"]") if lost else None
