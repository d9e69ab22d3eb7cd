"""Calling the `tokenizers` library."""

import ctypes
import sys
from collections.abc import Iterable
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


def library_ids(library: "Library", text: str, *, add_special_tokens: bool) -> list[int]:
    """Return the ids of a text; other threads run meanwhile if it is long. Raises what the library raises."""
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


def text_ids(library: "Library", text: str, parts: Iterable[str]) -> list[int]:
    """Return the ids of a text; UnencodableText naming the first of its parts that no token stands for."""
    try:
        return library_ids(library, text, add_special_tokens=False)
    except BaseException as error:
        if not is_library_fault(error):
            raise
        lost = (part for part in parts if _is_lost(library, part))
        raise UnencodableText(next(map(repr, lost), "a part of the text")) from error


def _is_lost(library: "Library", part: str) -> bool:
    try:
        library.encode(part, add_special_tokens=False)
    except BaseException as error:
        if not is_library_fault(error):
            raise
        return True
    return False


def _give_memory_back() -> None:
    """Let the system have what the library has freed, which glibc otherwise keeps for the next time."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def is_library_fault(error: BaseException) -> bool:
    """Tell whether an exception is one that the library raises: a bare one, or a panic."""
    return type(error) in (Exception, TypeError, ValueError) or type(error).__name__ == "PanicException"
