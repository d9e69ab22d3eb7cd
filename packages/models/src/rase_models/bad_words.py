"""Bad words as text: the token sequences that would write them."""

from collections.abc import Iterable
from typing import Protocol

from rase_core.errors import InvalidGenerationConfig


class Encoder(Protocol):
    """What turns a text into tokens."""

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Return the tokens of a text."""


def spellings(tokenizer: Encoder, words: Iterable[str]) -> tuple[tuple[int, ...], ...]:
    """Return each word's tokens at the start of a text and after a space.

    Raises UnencodableText, InvalidGenerationConfig for an empty word.
    """
    words = tuple(words)
    if "" in words:
        raise InvalidGenerationConfig("bad_words", "", "texts of at least one character")
    texts = dict.fromkeys(text for word in words for text in (word, f" {word}"))
    encoded = (tuple(tokenizer.encode(text, add_special_tokens=False, parse_special=False)) for text in texts)
    return tuple(dict.fromkeys(encoded))
