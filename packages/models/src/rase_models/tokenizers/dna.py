"""Tokens of six letters for what stands between `<dna>` and `</dna>`; other text is left to another model."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from rase_models.tokenizers.byte_level import byte_level_bytes
from rase_models.tokenizers.gguf_encoder import TextModel
from rase_models.tokenizers.vocabulary import Vocabulary

_OPEN, _CLOSE, _OTHER = "<dna>", "</dna>", "<oov>"
_SEQUENCE = re.compile(f"{_OPEN}(.*?)({_CLOSE}|\\Z)", re.DOTALL)
_LETTERS = 6
_MARK = "\ue000"
"""Ends the spelling of six letters in the file, since other text may have a token of the same letters."""


class DnaWithin:
    """Text with sequences in it; without the tags, or where they are control tokens, text alone."""

    def __init__(self, vocabulary: Vocabulary, text: TextModel) -> None:
        ids = vocabulary.writable()
        self._text = text
        self._tags = {tag: ids[tag] for tag in (_OPEN, _CLOSE, _OTHER) if tag in ids}
        marked = ((token.removesuffix(_MARK), i) for token, i in ids.items() if token.endswith(_MARK))
        self._sequences = {token.encode("utf-8", "surrogateescape"): i for token, i in marked}

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a byte outside sequences that no token stands for.
        """
        if len(self._tags) < 3:
            return self._text.encode(parts)
        split = ((part,) if isinstance(part, int) else self._split(part) for part in parts)
        return self._text.encode(chain.from_iterable(split))

    def _split(self, text: str) -> Iterator[int | str]:
        """Yield the ids of sequences and their tags, and the text between them."""
        position = 0
        for found in _SEQUENCE.finditer(text):
            yield text[position : found.start()]
            yield self._tags[_OPEN]
            yield from self._of_sequence(found[1].encode().upper())
            if found[2]:
                yield self._tags[_CLOSE]
            position = found.end()
        yield text[position:]

    def _of_sequence(self, letters: bytes) -> Iterator[int]:
        """Yield an id for each six letters; what is missing of the last six is A."""
        for start in range(0, len(letters), _LETTERS):
            six = letters[start : start + _LETTERS].ljust(_LETTERS, b"A")
            yield self._sequences.get(six, self._tags[_OTHER])


def dna_bytes(token: str) -> bytes:
    """Return the bytes that a token spells, as letters or as bytes."""
    return byte_level_bytes(token.removesuffix(_MARK))
