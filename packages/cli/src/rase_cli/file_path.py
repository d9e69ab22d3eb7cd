"""Paths as options and arguments."""

from pathlib import Path

import click


class FilePath(click.Path):
    """A path that is not empty: an empty one, as from a variable that is not set, would mean this folder."""

    def __init__(self, *, exists: bool = False, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; click.BadParameter for an empty text."""
        if value == "":
            self.fail("an empty text is no path.", param, ctx)
        return Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
