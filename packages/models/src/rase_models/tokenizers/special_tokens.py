"""Finding special tokens inside text."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from rase_models.tokenizers.token_edges import TokenEdges
from rase_models.tokenizers.token_pattern import longest_of


class SpecialTokens:
    """The texts that stand for one token each, wherever they occur: leftmost first, then longest.

    An empty text occurs nowhere. White space after one of the tokens in `strips` is part of it.
    """

    def __init__(self, ids: Mapping[str, int], strips: Collection[int] = ()) -> None:
        self._ids = {token: i for token, i in ids.items() if token}
        self._strips = strips
        self._pattern = longest_of(self._ids)

    def split(self, text: str) -> Iterator[int | str]:
        """Yield the parts of a text in order: ids of special tokens, and the non-empty text between them."""
        start = 0
        while self._pattern and (found := self._pattern.search(text, start)):
            if start < found.start():
                yield text[start : found.start()]
            token, start = self._ids[found[0]], found.end()
            yield token
            if token in self._strips:
                start = _after_space(text, start)
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
        place = -1
        while self._pattern and (found := self._pattern.search(text, place + 1)):
            place = found.start()
            yield place


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position
