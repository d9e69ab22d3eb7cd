"""Where a prompt comes from: the command line, a file, or standard input."""

import sys
from pathlib import Path

import click

from rase_cli.system_errors import reason_of
from rase_cli.terminal import is_terminal

_MOST_NBYTES = 1 << 28


def read_prompt(argument: str | None, file: Path | None = None) -> str | None:
    """Return the prompt: the argument, the file's text, or piped input; None when a person should type it.

    `-` as the argument means standard input. A last line break of a file or of the input is dropped.
    Standard input is not read when an argument or a file is given.

    Raises:
        click.UsageError: two prompts, no text at all, or text that is not UTF-8.
    """
    if argument is not None and file is not None:
        raise click.UsageError("give either PROMPT or --prompt-file, not both")
    if file is not None:
        return _nonempty(read_text(file), str(file))
    if argument is not None and argument != "-":
        return _checked(argument)
    if argument is None and is_terminal(sys.stdin):
        return None
    return _nonempty(_decode(sys.stdin.buffer.read(), "standard input"), "standard input")


def read_text(file: Path) -> str:
    """Return the text of a file without a last line break.

    Raises click.FileError when it cannot be read or has no end, and click.UsageError when it is not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(_MOST_NBYTES + 1)
    except OSError as error:
        raise click.FileError(str(file), reason_of(error)) from error
    if len(data) > _MOST_NBYTES:
        raise click.FileError(str(file), "it has more than 256 MB")
    return _decode(data, str(file))


def _checked(text: str) -> str:
    """Refuse what the operating system passed on from bytes that are not text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise click.UsageError(f"the prompt is not valid text at character {error.start}") from error
    if not text:
        raise click.UsageError("PROMPT is empty: give a text, or leave it out")
    return text


def _decode(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{source} is not UTF-8 text at byte {error.start}") from error
    return text.removesuffix("\n").removesuffix("\r")


def _nonempty(text: str, source: str) -> str:
    if not text:
        raise click.UsageError(f"{source} is empty, so there is no prompt")
    return text
