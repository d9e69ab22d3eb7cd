"""A regular expression that finds the longest of many texts, character by character, without a second try."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from operator import eq, itemgetter

_MOST_NESTED = 40
"""Groups within groups: of what differs deeper than that every text is tried, since the parser recurses."""


def longest_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return the expression of which a match is the longest of the texts there; None when there are none.

    An empty text is not found.
    """
    ways = _ways(sorted({text for text in texts if text}), 0)
    return re.compile(ways) if ways else None


def _ways(texts: Sequence[str], nested: int) -> str:
    """Return an alternation of sorted texts, the choice between which is always that of one character."""
    if nested > _MOST_NESTED:
        return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    alone = [text for text, following in _alike(texts) if not following]
    letters = [text for text in alone if len(text) == 1]
    longer = (
        re.escape(beginning) + _following(following, nested)
        for beginning, following in _alike(texts)
        if following or len(beginning) > 1
    )
    return "|".join([*longer, *_one_of(letters)])


def _alike(texts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Give how texts with the same first character begin, and how they go on: "" for one that does not."""
    for _, group in groupby(texts, itemgetter(0)):
        some = list(group)
        shared = sum(takewhile(bool, map(eq, some[0], some[-1])))
        following = [text[shared:] for text in some]
        yield some[0][:shared], [] if following == [""] else following


def _following(following: Sequence[str], nested: int) -> str:
    if not following:
        return ""
    may_end = following[0] == ""
    return f"(?:{_ways(following[may_end:], nested + 1)}){'?' if may_end else ''}"


def _one_of(letters: Sequence[str]) -> Iterator[str]:
    if letters:
        yield f"[{''.join(map(re.escape, letters))}]"
