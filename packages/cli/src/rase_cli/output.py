"""Answers to stdout, notes to stderr; tables by rich on a terminal, tab-separated lines in a pipe."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from rase_cli.system_errors import writing_output
from rase_cli.terminal import can_write, is_coloured, is_terminal, one_line, visible

Row = Sequence[object]


def answer(text: str) -> None:
    """Write a piece of a model's answer to stdout at once: raw in a pipe, harmless on a terminal."""
    with writing_output():
        sys.stdout.write(visible(text) if is_terminal(sys.stdout) else text)
        sys.stdout.flush()


def note(text: str, colour: str | None = "bright_black") -> None:
    """Write a line about the work, not part of any answer, to stderr; drop it where stderr takes nothing."""
    shown = visible(text)
    is_styled = colour is not None and is_coloured(sys.stderr)
    with suppress(OSError, ValueError):  # full, gone, or closed: what it is about goes on
        click.echo(click.style(shown, fg=colour) if is_styled else shown, err=True)


def warn(text: str) -> None:
    """Write a warning to stderr."""
    note(f"warning: {text}", "yellow")


def emit_json(value: object, *, indent: int | None = 2) -> None:
    """Write a value to stdout as JSON, in ASCII where that cannot write all of its characters."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    if not can_write(sys.stdout, text):
        text = json.dumps(value, indent=indent, default=str)
    with writing_output():
        sys.stdout.write(text + "\n")


def emit_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Write rows to stdout: a table with a header on a terminal, else one tab-separated line for each."""
    cells = [[one_line(_text(value)) for value in row] for row in rows]
    with writing_output():
        if is_terminal(sys.stdout):
            _print_table(columns, cells)
        else:
            sys.stdout.writelines("\t".join(row) + "\n" for row in cells)


def emit_fields(fields: Mapping[str, object]) -> None:
    """Write names and values to stdout, one a line, leaving out what is None or empty."""
    present = [(name, value) for name, value in fields.items() if value not in (None, "", {}, [])]
    emit_table(("field", "value"), present)


def _text(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


def _print_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    for row in cells:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console(file=sys.stdout).print(table)


def human_size(count: int) -> str:
    """Return a number of bytes in a person's units, as in `101.9 MB` (powers of 1000)."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
