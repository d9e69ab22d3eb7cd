"""Calling the `tokenizers` library."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_SHORT = 1 << 12
"""Characters of a text that takes so little time that other threads can wait for it."""


def library_ids(library: "Library", text: str, *, add_special_tokens: bool) -> list[int]:
    """Return the ids of a text; other threads run meanwhile if it is long. Raises what the library raises."""
    if len(text) <= _SHORT:
        ids: list[int] = library.encode(text, add_special_tokens=add_special_tokens).ids
        return ids
    # The call for one text keeps the interpreter's lock, that for several does not.
    (encoded,) = library.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    found: list[int] = encoded.ids
    return found
