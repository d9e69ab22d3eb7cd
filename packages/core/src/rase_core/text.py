"""Text out of the bytes of tokens: whole characters only."""

import codecs


class Utf8Assembler:
    """Puts UTF-8 together from pieces that may end within a character.

    Bytes that can belong to no character become U+FFFD. A character that never becomes whole is left out.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, piece: bytes) -> str:
        """Return the characters that are whole with these bytes and were not before."""
        return self._decoder.decode(piece)
