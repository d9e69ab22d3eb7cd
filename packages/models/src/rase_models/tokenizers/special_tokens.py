"""Finding special tokens inside text."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from rase_models.tokenizers.token_edges import TokenEdges


class SpecialTokens:
    """The texts that stand for one token each, wherever they occur: leftmost first, then longest.

    An empty text occurs nowhere. White space after one of the tokens in `strips` is part of it.
    """

    def __init__(self, ids: Mapping[str, int], strips: Collection[int] = ()) -> None:
        self._ids = {token: i for token, i in ids.items() if token}
        self._strips = strips
        self._lengths = _lengths_by_start(self._ids)
        self._runs = _runs(self._ids)
        self._candidate = _candidate(self._runs, self._lengths)

    def split(self, text: str) -> Iterator[int | str]:
        """Yield the parts of a text in order: ids of special tokens, and the non-empty text between them."""
        start = position = 0
        while self._candidate and (candidate := self._candidate.search(text, position)):
            position = candidate.start()
            token = candidate[0] if text[position] in self._runs else self._match(text, position)
            if token is None:
                position += 1
                continue
            if start < position:
                yield text[start:position]
            yield self._ids[token]
            position += len(token)
            if self._ids[token] in self._strips:
                position = _after_space(text, position)
            start = position
        if start < len(text):
            yield text[start:]

    @property
    def texts(self) -> Collection[str]:
        """What the tokens are written as."""
        return self._ids.keys()

    @cached_property
    def edges(self) -> TokenEdges:
        """What finds parts of the tokens at the beginning and the end of a text."""
        return TokenEdges(self._ids)

    def places(self, text: str) -> Iterator[int]:
        """Yield where in a text one of the tokens begins, also within another one."""
        position = 0
        while self._candidate and (candidate := self._candidate.search(text, position)):
            place = candidate.start()
            if text[place] in self._runs or self._match(text, place) is not None:
                yield place
            position = place + 1

    def _match(self, text: str, position: int) -> str | None:
        for start in (text[position : position + 2], text[position]):
            for length in self._lengths.get(start, ()):
                token = text[position : position + length]
                if token in self._ids:
                    return token
        return None


def _lengths_by_start(tokens: Iterable[str]) -> dict[str, list[int]]:
    """Return for the first two characters of tokens, or the only one, their lengths, longest first."""
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for token in tokens:
        lengths[token[:2]].add(len(token))
    return {start: sorted(found, reverse=True) for start, found in lengths.items()}


def _candidate(runs: Mapping[str, str], starts: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of where a token may begin; None when there are no tokens.

    All its choices begin with a character that is written as such, which is what is found soonest.
    """
    seconds = defaultdict[str, set[str]](set)
    for start in starts:
        if start[0] not in runs:
            seconds[start[0]].add(start[1:])
    ways = (
        re.escape(first) + ("" if "" in found else f"(?=[{''.join(map(re.escape, sorted(found)))}])")
        for first, found in seconds.items()
    )
    found = [*runs.values(), *ways]
    return re.compile("|".join(found)) if found else None


def _runs(ids: Iterable[str]) -> dict[str, str]:
    """Return for each character a pattern of its tokens, where these are it so and so often, without gaps."""
    tokens: defaultdict[str, set[str]] = defaultdict(set)
    for token in ids:
        tokens[token[0]].add(token)
    lengths = {
        c: sorted(map(len, found)) for c, found in tokens.items() if all(t == c * len(t) for t in found)
    }
    return {
        c: f"{re.escape(c)}{re.escape(c)}{{{found[0] - 1},{found[-1] - 1}}}"
        for c, found in lengths.items()
        if found[-1] - found[0] < len(found)
    }


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
