"""What an answer must look like, as command-line options by one table."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rase_core.json_text import NotJson, parse_json

from rase_cli.prompts import read_text
from rase_cli.settings import Body

if TYPE_CHECKING:
    from rase_models.constraints import ResponseFormat

_OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "json_object": ("The answer is a JSON object.", {"is_flag": True}),
    "json_schema": ("The answer is JSON of this schema: its text, or @FILE.", {"metavar": "SCHEMA"}),
    "regex": ("The answer is a text that this regular expression matches.", {"metavar": "PATTERN"}),
    "grammar": ("The answer is a text of this GBNF or Lark: its text, or @FILE.", {"metavar": "GRAMMAR"}),
    "choice": ("The answer is this text, or another that is given. [may be repeated]", {"multiple": True}),
}

_NOT_GIVEN = (None, False, ())


def format_options(command: Body) -> Body:
    """Give a command the options."""
    for name, (text, more) in reversed(tuple(_OPTIONS.items())):
        command = click.option(f"--{name.replace('_', '-')}", name, help=text, **more)(command)
    return command


def taken_format(given: dict[str, object]) -> "ResponseFormat | None":
    """Take the options out of those that a command was given, and return the format; None for any text.

    A text that is empty, as from a variable that is not set, is one that was given: it is not left out.

    Raises click.UsageError for two of them and for what makes no format, click.FileError for a file that
    cannot be read, and UnenforceableFormat.
    """
    values = {name: given.pop(name) for name in _OPTIONS}
    names = [name for name, value in values.items() if value not in _NOT_GIVEN]
    if len(names) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in names[:2])
        raise click.UsageError(f"{first} and {second} cannot be combined")
    return _MAKERS[names[0]](values[names[0]]) if names else None


def _text(value: str) -> str:
    """Return a text that is given as it is or as @FILE."""
    return read_text(Path(value[1:])) if value.startswith("@") else value


def _schema(value: str) -> "ResponseFormat":
    from rase_models.constraints import ResponseFormat

    try:
        schema = parse_json(_text(value))
    except NotJson as error:
        raise click.UsageError(f"--json-schema is not valid JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise click.UsageError("--json-schema is no JSON schema: expected an object")
    return ResponseFormat.json_schema(schema)


def _object(value: object) -> "ResponseFormat":
    from rase_models.constraints import ResponseFormat

    return ResponseFormat.json_object()


def _regex(value: str) -> "ResponseFormat":
    from rase_models.constraints import ResponseFormat

    return ResponseFormat.regex(value)


def _grammar(value: str) -> "ResponseFormat":
    from rase_models.constraints import ResponseFormat

    return ResponseFormat.grammar(_text(value))


def _choice(values: tuple[str, ...]) -> "ResponseFormat":
    from rase_models.constraints import ResponseFormat

    return ResponseFormat.choice(values)


_MAKERS: "Mapping[str, Callable[[Any], ResponseFormat]]" = {
    "json_object": _object,
    "json_schema": _schema,
    "regex": _regex,
    "grammar": _grammar,
    "choice": _choice,
}
