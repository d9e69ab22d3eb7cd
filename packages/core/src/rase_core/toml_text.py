"""TOML that a person may have changed, with faults in words that say where they are."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rase_core.errors import InvalidManifest

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_PLACE = re.compile(r" at line \d+ col \d+$")
_WORDS: Sequence[tuple["re.Pattern[str]", str]] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^Unexpected character: (.+)", r"the character \1 does not belong there; is a value not closed?"),
        (r"^Key (.+) already exists", r"the key or table \1 is there twice"),
        (r"^Redefinition of an existing table", "a table is there twice"),
        (r"^Invalid number", "no number that TOML has, or one that is too large"),
        (r"^Invalid (date|time|datetime)", r"no \1 that there is"),
        (r"^Control characters", "a control character, or a text that is not closed on its line"),
        (r"^Invalid character (.+) in string", r"no such escape: \\ and \1"),
        (r"^Empty key", "a key is missing before '='"),
        (r"^Empty table name", "a table has no name"),
        (r"^Invalid key (.+)", r"\1 is no key; quote it if it is meant"),
        (r"^Unexpected end of file", "the file ends too early"),
        (r"^Mixed types found in array", "a list has values of several types"),
    )
)
"""What tomlkit says, and what is said here; the first that is found."""


def parse_toml(text: str, path: Path) -> "TOMLDocument":
    """Return the document that a text is; `path` is for messages. Raises InvalidManifest."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        return tomlkit.parse(text)
    except ParseError as error:
        place = f"column {error.col + 1}: "
        raise InvalidManifest(path, f"is not TOML: {place}{_said(str(error))}", line=error.line) from error
    except RecursionError as error:
        raise InvalidManifest(path, "is not TOML: it is nested too deeply") from error
    except (TOMLKitError, ValueError) as error:
        raise InvalidManifest(path, f"is not TOML: {_said(str(error))}") from error


def _said(text: str) -> str:
    text = _PLACE.sub("", text).strip()
    found = ((pattern.search(text), words) for pattern, words in _WORDS)
    return next((match.expand(words) for match, words in found if match is not None), "it cannot be read")
