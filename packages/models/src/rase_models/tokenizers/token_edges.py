"""Finding texts that become a special token together with what stands before or after them."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence


class TokenEdges:
    """The parts of special tokens that a text may begin or end with.

    A part that is one of letters and digits alone counts as none, since most words have such.
    """

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = sorted(tokens)
        self._reversed = sorted(token[::-1] for token in tokens)
        self._firsts = frozenset(token[0] for token in tokens)
        self._lasts = frozenset(token[-1] for token in tokens)
        self._longest = max(map(len, tokens), default=0)

    def places(self, text: str) -> Iterator[int]:
        """Yield where a token begins that a text has not all of, and where text begins that may end one.

        White space around the text is passed over: templates strip it.
        """
        yield from self._unfinished(text.rstrip())
        body = text.lstrip()
        if self._ends_one(body[: self._longest - 1]):
            yield len(text) - len(body)

    def _unfinished(self, text: str) -> Iterator[int]:
        for place in range(max(len(text) - self._longest + 1, 0), len(text)):
            if text[place] in self._firsts and _is_part(self._tokens, text[place:]):
                yield place

    def _ends_one(self, start: str) -> bool:
        return any(
            character in self._lasts and _is_part(self._reversed, start[i::-1])
            for i, character in enumerate(start)
        )


def _is_part(tokens: Sequence[str], text: str) -> bool:
    """Whether one of the tokens, which are sorted, is longer than a text and begins with it."""
    after = bisect_right(tokens, text)
    return not text.isalnum() and after < len(tokens) and tokens[after].startswith(text)
