"""Where a prompt comes from."""

import io
import sys
from pathlib import Path

import click
import pytest
from rase_cli.prompts import read_prompt


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data, encoding="ascii"))
    return data


def pipe(stream: io.BytesIO, data: bytes) -> None:
    stream.write(data)
    stream.seek(0)


def test_an_argument_is_the_prompt_and_standard_input_is_not_touched(piped: io.BytesIO) -> None:
    pipe(piped, b"other")
    assert read_prompt("Hello\n") == "Hello\n"
    assert piped.tell() == 0


@pytest.mark.parametrize("argument", [None, "-"])
def test_piped_input_is_the_prompt_without_its_last_line_break(
    argument: str | None, piped: io.BytesIO
) -> None:
    pipe(piped, "\ufeffGrüße\r\n\r\n".encode())
    assert read_prompt(argument) == "Grüße\r\n"


def test_a_file_is_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_bytes(b"one\ntwo\n")
    assert read_prompt(None, tmp_path / "prompt.txt") == "one\ntwo"


def test_two_prompts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="not both"):
        read_prompt("a", tmp_path / "b")


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n"])
def test_no_text_is_no_prompt(data: bytes, piped: io.BytesIO) -> None:
    pipe(piped, data)
    with pytest.raises(click.UsageError, match="standard input is empty"):
        read_prompt(None)
    with pytest.raises(click.UsageError, match="PROMPT is empty: give a text, or leave it out"):
        read_prompt("")


def test_bytes_that_are_no_text_are_refused(piped: io.BytesIO) -> None:
    pipe(piped, b"abc\xff")
    with pytest.raises(click.UsageError, match="not UTF-8 text at byte 3"):
        read_prompt(None)
    with pytest.raises(click.UsageError, match="not valid text at character 1"):
        read_prompt("a\udcff")


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(click.FileError):
        read_prompt(None, tmp_path / name)


def test_nothing_is_read_from_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("typed"))
    assert read_prompt(None) is None


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without an end")
def test_a_file_that_has_no_end_is_refused() -> None:
    with pytest.raises(click.FileError, match="more than 256 MB"):
        read_prompt(None, Path("/dev/zero"))
