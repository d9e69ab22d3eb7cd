"""A command group that imports a command only when it is used."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """A group whose commands are a table: name -> (`module:attribute`, one line of help).

    The help of the group prints the table and imports nothing, which keeps `rase --help` fast.
    """

    def __init__(self, *, table: Mapping[str, tuple[str, str]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None when the table does not have it."""
        if cmd_name not in self.table:
            return None
        module, attribute = self.table[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's lines of help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[1]) for name, entry in self.table.items()])
