"""Reading the header of a GGUF file front to back, no byte of it trusted."""

import struct
from pathlib import Path
from typing import BinaryIO

from rase_core.errors import InvalidGguf

HEADER_LIMIT = 1 << 28
"""The most bytes of a header; real ones stay below 64 MiB, and a damaged length must not fill the memory."""

MOST_STRINGS = 1 << 22
"""The most strings in all arrays of a header; the largest vocabularies and their merges are a million.

Each costs far more memory than the 8 bytes that the shortest takes in the file.
"""

_CHUNK = 1 << 22
_LENGTH = struct.Struct("<Q")


class Cursor:
    """A position in a file that is read in chunks, never past its end or the header limit."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self._path = path
        self._file = file
        self._limit = min(size, HEADER_LIMIT)
        self._size = size
        self._buffer = b""
        self._start = 0  # the offset in the file of the buffer's first byte
        self._at = 0
        self._strings_left = MOST_STRINGS

    @property
    def offset(self) -> int:
        """The offset in the file of the next byte."""
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """The bytes between here and the end of the file or the header limit."""
        return self._limit - self.offset

    def error(self, what: str) -> InvalidGguf:
        """Return an error that names the file and this offset."""
        return InvalidGguf(self._path, what, offset=self.offset)

    def check_count(self, count: int, smallest: int, what: str) -> None:
        """Refuse a count of items of at least `smallest` bytes each that the file has no room for."""
        if count * smallest <= self.remaining:
            return
        if self._limit < self._size:
            raise self.error(f"the header is longer than {HEADER_LIMIT} bytes: {what}, {count} of them")
        raise self.error(f"{what}: {count} do not fit into the {self.remaining} bytes that are left")

    def take(self, count: int, what: str) -> bytes:
        """Read `count` bytes; `what` is their name in the error."""
        self._require(count, what)
        start = self._at
        self._at += count
        return self._buffer[start : self._at]

    def number(self, what: str) -> int:
        """Read an unsigned 32-bit number."""
        return int.from_bytes(self.take(4, what), "little")

    def length(self, what: str) -> int:
        """Read an unsigned 64-bit number."""
        return int.from_bytes(self.take(8, what), "little")

    def string(self, what: str) -> str:
        """Read a string; bytes that are not UTF-8 become lone surrogates (`surrogateescape`)."""
        return self.take(self.length(f"the length of {what}"), what).decode("utf-8", "surrogateescape")

    def name(self, limit: int, what: str) -> str:
        """Read a string of at most `limit` bytes that must be UTF-8."""
        length = self.length(f"the length of {what}")
        if length > limit:
            raise self.error(f"{what} has {length} bytes, at most {limit} are allowed")
        value = self.take(length, what)
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"{what}: {value[:64]!r} is not UTF-8") from None

    def strings(self, count: int, what: str) -> list[str]:
        """Read `count` strings."""
        self.check_count(count, 8, what)
        if count > self._strings_left:
            raise self.error(f"{what}: {count} strings, but a header may have {MOST_STRINGS} in all")
        self._strings_left -= count
        values: list[str] = []
        while len(values) < count:
            self._at = _scan_strings(self._buffer, self._at, count, values)
            if len(values) < count:  # the next one crosses the end of the buffer
                values.append(self.string(what))
        return values

    def _require(self, count: int, what: str) -> None:
        if count > self.remaining:
            self.check_count(count, 1, f"{what}, in bytes")
        kept = len(self._buffer) - self._at
        if count > kept:
            more = self._file.read(max(count - kept, min(_CHUNK, self.remaining - kept)))
            self._buffer = self._buffer[self._at :] + more
            self._start += self._at
            self._at = 0
            if len(self._buffer) < count:
                raise self.error(f"the file ends within {what}")


def _scan_strings(buffer: bytes, at: int, count: int, values: list[str]) -> int:
    """Append the strings that lie whole in the buffer, up to `count` in all; return where the next begins."""
    unpack, append, last = _LENGTH.unpack_from, values.append, len(buffer) - 8
    for _ in range(count - len(values)):
        if at > last:
            break
        end = at + 8 + unpack(buffer, at)[0]
        if end > len(buffer):
            break
        append(buffer[at + 8 : end].decode("utf-8", "surrogateescape"))
        at = end
    return at
