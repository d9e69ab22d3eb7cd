"""From ids back to bytes, for a vocabulary read from a GGUF."""

import re
from collections.abc import Callable

from rase_models.tokenizers.kinds import TokenKind
from rase_models.tokenizers.space import SPACE
from rase_models.tokenizers.vocabulary import Vocabulary

BytesOf = Callable[[str], bytes]

_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LITERAL = frozenset((TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.USER_DEFINED))


class VocabularyPieces:
    """The tokens of a vocabulary; special and user-defined ones mean their own text, others go by `spelt`."""

    def __init__(self, vocabulary: Vocabulary, spelt: BytesOf) -> None:
        self._vocabulary = vocabulary
        self._spelt = spelt

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self._vocabulary.tokens)

    def id_of(self, token: str) -> int | None:
        """Return the id of a token."""
        return self._vocabulary.ids.get(token)

    def token_of(self, token: int) -> str | None:
        """Return the spelling of an id; None when there is no such id."""
        return self._vocabulary.tokens[token] if 0 <= token < self.size else None

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of an id; none for an id that does not exist."""
        spelling = self.token_of(token)
        if spelling is None:
            return b""
        if self._vocabulary.kinds[token] in _LITERAL:
            return literal_bytes(spelling)
        return self._spelt(spelling)


def is_text(token: str) -> bool:
    """Tell whether a token is whole characters, not bytes kept as surrogates."""
    return not _SURROGATE.search(token)


def spellable(tokens: dict[str, int]) -> dict[str, int]:
    """Return the tokens that are whole characters; the `tokenizers` library cannot hold others."""
    if is_text("".join(tokens)):
        return tokens
    return {token: i for token, i in tokens.items() if is_text(token)}


def literal_bytes(token: str) -> bytes:
    """Return the bytes of a token that stands for its own text."""
    return token.encode("utf-8", "surrogateescape")


def sentencepiece_bytes(token: str) -> bytes:
    """Return the bytes of a SentencePiece token: `▁` is a space, `<0x0A>` a byte."""
    return plain_bytes(token.replace(SPACE, " "))


def plain_bytes(token: str) -> bytes:
    """Return the bytes of a token that is text but where it spells a byte (`<0x0A>`)."""
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else literal_bytes(token)
