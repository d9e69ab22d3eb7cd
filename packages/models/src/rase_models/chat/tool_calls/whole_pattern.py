"""Patterns that have a match somewhere in a text, in those of whole texts, as Lark has them."""

import re
from collections.abc import Mapping, Sequence

from rase_core.errors import UnenforceableFormat

from rase_models.constraints.repetitions import excess_of, repetitions
from rase_models.constraints.response_format import TOOLS

_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\\?\Z)|.", re.DOTALL)
"""What is escaped, a class of characters, also one that has no end, or one character."""
_DEEPER: Mapping[str, int] = {"(": 1, ")": -1}
_ANY = "(?s:.*)"
_IN_LARK = re.compile(r"\\.|/|\n", re.DOTALL)


def whole_pattern(pattern: str) -> str:
    """Return the pattern of whole texts in which another one, as JSON Schema means it, has a match.

    Raises UnenforceableFormat for anchors that stand elsewhere than around a way that the whole may go, and
    for too many repetitions.
    """
    excess = excess_of(repetitions(pattern))
    if excess is not None:
        raise UnenforceableFormat(TOOLS, f"'pattern' {pattern[:100]!r}: {excess}")
    ways = [_whole(way, pattern) for way in _ways(_PIECE.findall(pattern))]
    return _IN_LARK.sub(_escaped, "|".join(ways) if len(ways) == 1 else f"(?:{'|'.join(ways)})")


def _ways(pieces: Sequence[str]) -> list[list[str]]:
    """Split a pattern where `|` stands outside of groups."""
    ways: list[list[str]] = [[]]
    depth = 0
    for piece in pieces:
        depth += _DEEPER.get(piece, 0)
        if piece == "|" and not depth:
            ways.append([])
        else:
            ways[-1].append(piece)
    return ways


def _whole(way: Sequence[str], pattern: str) -> str:
    is_begun, is_ended = way[:1] == ["^"], way[-1:] == ["$"]
    body = way[is_begun : len(way) - is_ended]
    if "^" in body or "$" in body:
        why = f"'pattern' {pattern[:100]!r}: ^ and $ can be enforced at the ends alone"
        raise UnenforceableFormat(TOOLS, why)
    return f"{'' if is_begun else _ANY}(?:{''.join(body)}){'' if is_ended else _ANY}"


def _escaped(found: "re.Match[str]") -> str:
    return {"/": r"\/", "\n": r"\n"}.get(found[0], found[0])
