"""Looking for markers in a text that comes in pieces."""

from collections.abc import Sequence


class HeldText:
    """Text that has come and was not passed on yet."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        """Append a piece."""
        self._text += text

    def take_until(self, markers: Sequence[str]) -> tuple[str, str | None]:
        """Return the text before the first marker, and the marker, both of which are passed on.

        Without a marker the text is what cannot be the beginning of one, and there is no marker. No marker
        may be a part of another one.
        """
        at, marker = min(
            ((at, marker) for marker in markers if (at := self._text.find(marker)) >= 0), default=(-1, None)
        )
        if marker is None:
            return self._cut(len(self._text) - self._open_end(markers)), None
        before = self._cut(at)
        self._cut(len(marker))
        return before, marker

    def take_all(self) -> str:
        """Return everything."""
        return self._cut(len(self._text))

    def _cut(self, end: int) -> str:
        text, self._text = self._text[:end], self._text[end:]
        return text

    def _open_end(self, markers: Sequence[str]) -> int:
        """Return how long the longest end of the text is that begins a marker."""
        longest = max((len(marker) for marker in markers), default=1) - 1
        for size in range(min(longest, len(self._text)), 0, -1):
            end = self._text[-size:]
            if any(marker.startswith(end) for marker in markers):
                return size
        return 0
