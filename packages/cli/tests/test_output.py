"""Tables, fields, JSON and sizes."""

import io
import json
import sys

import pytest
from rase_cli.output import answer, emit_fields, emit_json, emit_table, human_size, warn


class FakeTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def to_terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    stream = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def test_a_piped_table_is_one_tab_separated_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    emit_table(("id", "size"), [("a", 1), ("b\tc\n", None)])
    assert capsys.readouterr().out == "a\t1\nb\u2409c\u240a\t\n"


def test_a_table_on_a_terminal_has_a_header_and_harmless_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = to_terminal(monkeypatch)
    emit_table(("id", "size"), [("evil\x1b[2J [red]x", 1)])
    shown = terminal.getvalue()
    assert "id" in shown.splitlines()[0] + shown.splitlines()[1]
    assert "evil\u241b[2J [red]x" in shown


def test_empty_fields_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    emit_fields({"id": "a", "source": None, "defaults": {}, "weights": [{"size": 1}], "zero": 0})
    assert capsys.readouterr().out == 'id\ta\nweights\t[{"size": 1}]\nzero\t0\n'


def test_json_keeps_other_scripts_readable(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"id": "caf\u00e9"})
    text = capsys.readouterr().out
    assert "caf\u00e9" in text
    assert json.loads(text) == {"id": "caf\u00e9"}


@pytest.mark.parametrize(
    ("encoding", "text"), [("utf-8", "caf\udce9"), ("latin-1", "模型"), ("ascii", "café")]
)
def test_json_that_a_stream_cannot_write_is_escaped(
    monkeypatch: pytest.MonkeyPatch, encoding: str, text: str
) -> None:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding, errors="replace")
    monkeypatch.setattr(sys, "stdout", stream)
    emit_json({"id": text})
    stream.flush()
    assert json.loads(data.getvalue().decode(encoding)) == {"id": text}


def test_an_answer_is_raw_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    answer("a\x1b[31mb")
    assert capsys.readouterr().out == "a\x1b[31mb"


def test_an_answer_cannot_drive_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = to_terminal(monkeypatch)
    answer("a\x1b]0;title\x07b\n")
    assert terminal.getvalue() == "a\u241b]0;title\u2407b\n"


def test_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    warn("careful")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: careful\n")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (101_900_000, "101.9 MB"), (5 * 10**15, "5000.0 TB")],
)
def test_sizes_have_units(count: int, text: str) -> None:
    assert human_size(count) == text
