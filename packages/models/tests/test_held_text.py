"""Markers in a text that comes in pieces."""

from time import thread_time

from hypothesis import given
from hypothesis import strategies as st
from rase_models.chat.held_text import HeldText

MARKERS = ("<|a|>", "<|b|>", "<x>")
PIECES = st.lists(st.text("<|abx>.", max_size=6), max_size=12)


def taken(pieces: list[str]) -> list[str]:
    """Return the texts between markers, and the markers, as they come out."""
    held, parts = HeldText(), [""]
    for piece in pieces:
        held.add(piece)
        while True:
            before, marker = held.take_until(MARKERS)
            parts[-1] += before
            if marker is None:
                break
            parts += [marker, ""]
    parts[-1] += held.take_all()
    return parts


def split(text: str) -> list[str]:
    """Do the same with the whole text."""
    found = [(text.find(marker), marker) for marker in MARKERS if marker in text]
    if not found:
        return [text]
    at, marker = min(found)
    return [text[:at], marker, *split(text[at + len(marker) :])]


@given(PIECES)
def test_pieces_do_not_matter(pieces: list[str]) -> None:
    assert taken(pieces) == split("".join(pieces))


def test_nothing_is_held_back_without_markers() -> None:
    held = HeldText()
    held.add("<|a")
    assert held.take_until(()) == ("<|a", None)


def test_a_text_full_of_markers_takes_time_by_its_length() -> None:
    start = thread_time()
    assert len(taken(["<|a|>." * 50_000])) == 100_001
    assert thread_time() - start < 2
