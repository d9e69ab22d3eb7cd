"""What reaches a terminal."""

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_cli.terminal import is_coloured, is_terminal, one_line, tolerate_narrow_encodings, visible


class FakeTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_escape_sequences_become_visible() -> None:
    assert visible("\x1b[31mred\x07\x7f\x9b") == "\u241b[31mred\u2407\u2421\ufffd"


def test_line_breaks_and_tabs_stay_in_text_and_not_in_a_cell() -> None:
    assert visible("a\tb\nc\r") == "a\tb\nc\u240d"
    assert one_line("a\tb\nc") == "a\u2409b\u240ac"


def test_bytes_that_are_no_text_are_escaped() -> None:
    assert visible("caf\udce9") == one_line("caf\udce9") == "caf\\udce9"


@given(st.text(st.characters(codec="utf-8")))
def test_no_control_character_survives(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert all(c in "\n\t" or unicodedata.category(c) != "Cc" for c in shown)
    assert all(unicodedata.category(c) != "Cc" for c in one_line(text))


def test_no_color_and_dumb_terminals_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert is_coloured(FakeTerminal())
    assert not is_coloured(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_coloured(FakeTerminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_coloured(FakeTerminal())


def test_a_closed_stream_is_no_terminal() -> None:
    stream = FakeTerminal()
    stream.close()
    assert not is_terminal(stream)


def test_a_narrow_terminal_shows_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    latin = io.TextIOWrapper(data, encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", latin)
    tolerate_narrow_encodings()
    latin.write("caf\u00e9 \u2603")
    latin.flush()
    assert data.getvalue() == b"caf\xe9 ?"
