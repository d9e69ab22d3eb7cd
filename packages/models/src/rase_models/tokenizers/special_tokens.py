"""Finding special tokens inside text."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping


class SpecialTokens:
    """The texts that stand for one token each, wherever they occur: leftmost first, then longest."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = ids
        self._lengths = _lengths_by_first(ids)
        first = "".join(re.escape(character) for character in self._lengths)
        self._candidate = re.compile(f"[{first}]") if first else None

    def split(self, text: str) -> Iterator[int | str]:
        """Yield the parts of a text in order: ids of special tokens, and the non-empty text between them."""
        start = position = 0
        while self._candidate and (candidate := self._candidate.search(text, position)):
            position = candidate.start()
            token = self._match(text, position)
            if token is None:
                position += 1
                continue
            if start < position:
                yield text[start:position]
            yield self._ids[token]
            start = position = position + len(token)
        if start < len(text):
            yield text[start:]

    def _match(self, text: str, position: int) -> str | None:
        for length in self._lengths[text[position]]:
            token = text[position : position + length]
            if token in self._ids:
                return token
        return None


def _lengths_by_first(tokens: Iterable[str]) -> dict[str, list[int]]:
    """Return for each first character the lengths of its tokens, longest first."""
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for token in tokens:
        lengths[token[0]].add(len(token))
    return {first: sorted(found, reverse=True) for first, found in lengths.items()}
