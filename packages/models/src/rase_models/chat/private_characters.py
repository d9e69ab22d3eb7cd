"""Characters for private use that nothing at hand has, so that they may stand for something else."""

import re
from collections.abc import Iterator
from itertools import chain
from json import dumps

_PRIVATE = (range(0xE001, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
_ESCAPES = re.compile(r"\\u(?:0000)?(?=([0-9a-f]{4})(?:\\u(d[c-f][0-9a-f]{2}))?)", re.IGNORECASE)
_LONG_ESCAPES = re.compile(r"\\U00(0f|10)([0-9a-f]{4})", re.IGNORECASE)


def unused_characters(*values: object) -> Iterator[str]:
    """Yield the private characters that no string in plain values has, nor as an escape that may be read."""
    found = set[int]()
    for text in set(texts_of(*values)):
        found.update(map(ord, set(text)))
        if "\\" in text:
            found.update(_escaped_codes(text))
    return (chr(code) for code in chain.from_iterable(_PRIVATE) if code not in found)


def texts_of(*values: object) -> Iterator[str]:
    """Yield all strings in plain values, also the names in them."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def escaped(character: str) -> str:
    """Return how JSON of ASCII alone writes a character."""
    return dumps(character)[1:-1]


def _escaped_codes(text: str) -> Iterator[int]:
    for first, second in _ESCAPES.findall(text):
        high = int(first, 16)
        yield high
        if second:
            yield 0x10000 + ((high - 0xD800) << 10) + int(second, 16) - 0xDC00
    for plane, rest in _LONG_ESCAPES.findall(text):
        yield int(plane + rest, 16)
