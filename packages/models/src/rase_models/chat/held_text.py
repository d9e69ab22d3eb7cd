"""Looking for markers in a text that comes in pieces."""

import re
from collections.abc import Sequence
from functools import lru_cache


class HeldText:
    """Text that has come and was not passed on yet."""

    def __init__(self) -> None:
        self._text, self._taken = "", 0

    def add(self, text: str) -> None:
        """Append a piece."""
        self._text, self._taken = self._text[self._taken :] + text, 0

    def take_until(self, markers: Sequence[str]) -> tuple[str, str | None]:
        """Return the text before the first marker, and the marker, both of which are passed on.

        Without a marker the text is what cannot be the beginning of one, and there is no marker. No marker
        may be a part of another one.
        """
        found = _pattern(tuple(markers)).search(self._text, self._taken)
        if found is None:
            return self._take(len(self._text) - self._open_end(markers)), None
        before = self._take(found.start())
        return before, self._take(found.end())

    def take_all(self) -> str:
        """Return everything."""
        return self._take(len(self._text))

    def _take(self, end: int) -> str:
        start, self._taken = self._taken, end
        return self._text[start:end]

    def _open_end(self, markers: Sequence[str]) -> int:
        """Return how long the longest end of the text is that begins a marker."""
        longest = max((len(marker) for marker in markers), default=1) - 1
        for size in range(min(longest, len(self._text) - self._taken), 0, -1):
            end = self._text[-size:]
            if any(marker.startswith(end) for marker in markers):
                return size
        return 0


@lru_cache(maxsize=256)
def _pattern(markers: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds the first of some markers; nothing where there are none."""
    return re.compile("|".join(map(re.escape, markers)) or "(?!)")
