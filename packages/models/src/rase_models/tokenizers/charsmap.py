"""SentencePiece's normalisation: a table of texts and what becomes of them, the longest that fits first.

The table is a double array, as the library `darts-clone` packs it, and after it the replacements, each ended
by a zero byte. The `tokenizers` library reads it too, but puts what is known of the beginning of a cluster of
characters in the place of the whole cluster.
"""

import re
import struct
from typing import TYPE_CHECKING

from rase_core.progress import Progress

if TYPE_CHECKING:
    from rase_models.backends.cpu.replacing import Replacing

_ENDS = 1 << 8
_LABEL = 1 << 31 | 0xFF
_VALUE = (1 << 31) - 1
_PRINTABLE = range(0x20, 0x7F)
_MOST_KNOWN_BYTES = 256
"""Of a text that is known, and of a replacement; longer ones, which would take quadratic time, are not."""
_PLAIN = re.compile(rb"[ -~]+(?![\x80-\xff])")


class Charsmap:
    """A table; ValueError for one that is cut off. What points outside of it fits nothing."""

    def __init__(self, data: bytes) -> None:
        size = int.from_bytes(data[:4], "little")
        if size == 0 or size % 4 or size + 4 > len(data):
            raise ValueError(f"a table of {size} bytes in {len(data)}")
        self._units = struct.unpack_from(f"<{size // 4}I", data, 4)
        self._texts = data[4 + size :]
        self._compiled: Replacing | None = None
        self._leaves_ascii = not any(map(self._replaces_ascii, _PRINTABLE))

    def compile(self, progress: Progress | None = None) -> None:
        """Replace by compiled code from now on; needs the backend of the CPU."""
        from rase_models.backends.cpu.replacing import by_double_array

        self._compiled = by_double_array(self._units, self._texts, progress)

    def normalize(self, text: str) -> str:
        """Return what becomes of a text."""
        if self._compiled is not None and (found := self._compiled.of(text.encode())) is not None:
            return found.decode("utf-8", "replace")
        data, parts, position = text.encode(), list[bytes](), 0
        while position < len(data):
            if self._leaves_ascii and (plain := _PLAIN.match(data, position)):
                length, part = len(plain[0]), plain[0]
            else:
                length, part = self._longest(data, position)
            if not length:
                length = _width(data[position])
                part = data[position : position + length]
            parts.append(part)
            position += length
        return b"".join(parts).decode("utf-8", "replace")

    def _longest(self, data: bytes, start: int) -> tuple[int, bytes]:
        """Return the length in bytes of the longest text that fits (0 for none) and what becomes of it."""
        found, children = (0, b""), _offset(self._units[0])
        for at in range(start, min(len(data), start + _MOST_KNOWN_BYTES)):
            node = self._child(children, data[at])
            if node is None:
                break
            children = node ^ _offset(self._unit(node))
            if self._unit(node) & _ENDS:
                found = (at + 1 - start, self._text(self._unit(children) & _VALUE))
        return found

    def _replaces_ascii(self, first: int) -> bool:
        """Tell whether a text is known that begins with this byte and has no others than printable ones."""
        node = self._child(_offset(self._units[0]), first)
        if node is None:
            return False
        children = node ^ _offset(self._unit(node))
        # Any known text goes through its first two bytes.
        more = any(self._child(children, byte) is not None for byte in _PRINTABLE)
        return more or bool(self._unit(node) & _ENDS)

    def _child(self, children: int, byte: int) -> int | None:
        """Return the node that a byte leads to; none for zero, which ends a text."""
        node = children ^ byte
        return node if byte and self._unit(node) & _LABEL == byte else None

    def _unit(self, node: int) -> int:
        return self._units[node] if node < len(self._units) else 0

    def _text(self, start: int) -> bytes:
        end = self._texts.find(b"\0", start, start + _MOST_KNOWN_BYTES)
        return self._texts[start:end] if end >= 0 else b""


def _offset(unit: int) -> int:
    """Return what leads from a node to its children."""
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _width(first: int) -> int:
    """Return the bytes of a character of UTF-8, by its first one."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
