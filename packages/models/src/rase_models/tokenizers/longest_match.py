r"""RWKV's tokenizer: at every place of a text the longest token that fits.

Its tokens are bytes, written as in a Python string: `\n`, `\xe4`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from rase_core.errors import UnencodableText

from rase_models.tokenizers.gguf_encoder import in_turn
from rase_models.tokenizers.vocabulary import Vocabulary

_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


class LongestMatch:
    """The tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokens = {escaped_bytes(token): i for token, i in vocabulary.writable().items()}
        self._lengths = _lengths_by_start(self._tokens)

    def encode(self, parts: Iterable[int | str]) -> list[int]:
        """Return the ids of the parts of a text, of which integers are ids already.

        Raises UnencodableText for a byte that no token begins with.
        """
        return in_turn(parts, self._ids)

    def _ids(self, text: str) -> list[int]:
        data, ids, position = text.encode(), list[int](), 0
        while position < len(data):
            token = self._match(data, position)
            ids.append(self._tokens[token])
            position += len(token)
        return ids

    def _match(self, data: bytes, position: int) -> bytes:
        for start in (data[position : position + 2], data[position : position + 1]):
            for length in self._lengths.get(start, ()):
                token = data[position : position + length]
                if token in self._tokens:
                    return token
        raise UnencodableText(f"the byte 0x{data[position]:02x}")


def escaped_bytes(token: str) -> bytes:
    """Return the bytes that a token writes."""
    data = token.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else _named(found[2]), data)


def _named(character: bytes) -> bytes:
    return _NAMED.get(character, character)


def _lengths_by_start(tokens: Iterable[bytes]) -> Mapping[bytes, list[int]]:
    """Return for the first two bytes of tokens, or the only one, their lengths, longest first."""
    lengths: defaultdict[bytes, set[int]] = defaultdict(set)
    for token in tokens:
        lengths[token[:2]].add(len(token))
    return {start: sorted(found, reverse=True) for start, found in lengths.items()}
