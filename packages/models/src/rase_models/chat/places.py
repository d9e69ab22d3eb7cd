"""Where in an answer its content stands, among thoughts, calls and the tags around them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rase_models.chat.parts import Content, Part, PartReader, Reasoning


def content_places(reader: PartReader, answer: str, cuts: Iterable[int]) -> list[range]:
    """Return the places of what a fresh reader takes for content, in order, not joined where they meet.

    The answer is read cut at `cuts`. What becomes certain with a piece is looked for from its end back to
    what was found before: so a letter is not found in the tag that it comes after.
    """
    places: list[range] = []
    begun = 0
    for start, end in pairwise([0, *sorted({cut for cut in cuts if 0 < cut < len(answer)}), len(answer)]):
        begun = _place(reader.push(answer[start:end]), answer, range(begun, end), places)
    _place(reader.finish(), answer, range(begun, len(answer)), places)
    return places


def _place(parts: Sequence[Part], answer: str, within: range, places: list[range]) -> int:
    """Add the places of parts of content; return where the last part of any kind ends."""
    found = list(_found(parts, answer, within))
    places += [place for part, place in reversed(found) if isinstance(part, Content)]
    return found[0][1].stop if found else within.start


def _found(parts: Sequence[Part], answer: str, within: range) -> Iterator[tuple[Part, range]]:
    """Yield the parts that are text, the last first, and their places."""
    end = within.stop
    for part in reversed(parts):
        if isinstance(part, Content | Reasoning):
            at = answer.rfind(part.text, within.start, end)
            if at >= 0:
                yield part, range(at, at + len(part.text))
                end = at
