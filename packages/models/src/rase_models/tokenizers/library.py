"""Calling the `tokenizers` library."""

import ctypes
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rase_core.errors import UnencodableText

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

NO_TOKEN = "\0 no token"
"""The unknown token of a vocabulary without one: the library then fails, where it would drop the text."""

_SHORT = 1 << 12
"""Characters of a text that takes so little time that other threads can wait for it."""

_HUGE = 1 << 18
"""Characters of a text whose tokens take so much memory that it is given back at once."""


class LibraryFault(Exception):
    """What the library raised, by its message."""


@contextmanager
def library_faults() -> Iterator[None]:
    """Raise LibraryFault of what the library raises: bare exceptions, and panics, which are none."""
    try:
        yield
    except BaseException as error:
        if type(error) in (Exception, TypeError, ValueError) or type(error).__name__ == "PanicException":
            raise LibraryFault(str(error)) from error
        raise


def library_ids(library: "Library", text: str, *, add_special_tokens: bool) -> list[int]:
    """Return the ids of a text; other threads run meanwhile if it is long. Raises LibraryFault."""
    with library_faults():
        return _ids(library, text, add_special_tokens)


def _ids(library: "Library", text: str, add_special_tokens: bool) -> list[int]:
    if len(text) <= _SHORT:
        ids: list[int] = library.encode(text, add_special_tokens=add_special_tokens).ids
        return ids
    # The call for one text keeps the interpreter's lock, that for several does not.
    (encoded,) = library.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    found: list[int] = encoded.ids
    if len(text) > _HUGE:
        del encoded
        _give_memory_back()
    return found


def library_spans(library: "Library", text: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Return the ids of a text, each with where in it that begins and ends. Raises LibraryFault."""
    with library_faults():
        if len(text) <= _SHORT:
            encoded = library.encode(text, add_special_tokens=False)
        else:
            (encoded,) = library.encode_batch([text], add_special_tokens=False)
    return zip(encoded.ids, encoded.offsets, strict=True)


def text_ids(library: "Library", text: str, parts: Iterable[str]) -> list[int]:
    """Return the ids of a text; UnencodableText naming the first of its parts that no token stands for."""
    try:
        return library_ids(library, text, add_special_tokens=False)
    except LibraryFault as error:
        lost = (part for part in parts if _is_lost(library, part))
        raise UnencodableText(next(map(repr, lost), "a part of the text")) from error


def _is_lost(library: "Library", part: str) -> bool:
    try:
        library_ids(library, part, add_special_tokens=False)
    except LibraryFault:
        return True
    return False


def _give_memory_back() -> None:
    """Let the system have what the library has freed, which glibc otherwise keeps for the next time."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
