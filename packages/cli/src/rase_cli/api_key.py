"""API keys as options."""

import os

import click

VARIABLE = "RASE_API_KEY"


class KeyOption(click.Option):
    """An option that a variable stands for, also an empty one, which click takes for none."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return what the variable holds; None where there is no such variable."""
        return os.environ.get(VARIABLE)


class ApiKey(click.types.StringParamType):
    """A key, or several in a variable; blanks alone are none, and would leave a server open to everybody."""

    name = "key"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the key; click.BadParameter for blanks."""
        key = super().convert(value, param, ctx)
        if not key.strip():
            self.fail("blanks are no key.", param, ctx)
        return key

    def split_envvar_value(self, rv: str) -> list[str]:
        """Return the keys of a variable, and its blanks if it has nothing else."""
        return rv.split() or [rv]
