"""Numbers as options: ranges of click's, whose names are words in messages and in help."""

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
