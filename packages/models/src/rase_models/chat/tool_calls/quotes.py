"""Telling the texts in the JSON of a call from what is around them."""

import re

_QUOTE_OR_ESCAPE = re.compile(r'\\.|\\|"', re.DOTALL)


class Quotes:
    """Whether a text in JSON is open at the end of what has come, each piece of which is looked at once."""

    def __init__(self) -> None:
        self.is_open = False
        self._escape = ""

    def add(self, piece: str) -> None:
        """Count what comes next."""
        found = _QUOTE_OR_ESCAPE.findall(self._escape + piece)
        self._escape = "\\" if found and found[-1] == "\\" else ""
        self.is_open ^= found.count('"') % 2 == 1
