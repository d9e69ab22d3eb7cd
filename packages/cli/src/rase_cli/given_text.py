"""Texts as options and arguments."""

import click


def given_text(text: str) -> str:
    """Return a text that is not empty: an empty one, as from a variable that is not set, would pass for none.

    Raises click.BadParameter.
    """
    if not text:
        raise click.BadParameter("an empty text is no value")
    return text
