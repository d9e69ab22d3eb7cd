"""How models are kept in memory, as command-line options."""

import click
from rase_core.duration import seconds_of
from rase_core.errors import InvalidParameter

from rase_cli.number import WholeNumber
from rase_cli.settings import Body, Option
from rase_cli.sizes import size


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> float | None:
    try:
        return seconds_of("duration", value)
    except InvalidParameter as error:
        raise click.BadParameter(error.message) from error


CONTEXT_NAMES = ("--context-length", "--max-context", "context_length")
"""The one option by two names, the second of which others know it by, and its argument."""

CONTEXT: Option = click.option(
    *CONTEXT_NAMES,
    type=WholeNumber(min=1),
    metavar="TOKENS",
    help="The most tokens of a prompt and its answer. [default: each model's]",
)
KV_MEMORY: Option = click.option(
    "--kv-memory",
    type=size,
    metavar="SIZE",
    help="The most memory for each model's keys and values, as in 4GB. [default: a quarter of the machine's, "
    "or of --max-memory; on a GPU what it has left]",
)
MAX_MEMORY: Option = click.option(
    "--max-memory",
    type=size,
    metavar="SIZE",
    help="The most memory for all models together; idle ones make room for others. [default: no limit]",
)
KEEP_ALIVE: Option = click.option(
    "--keep-alive",
    callback=_duration,
    default="-1",
    metavar="DURATION",
    help="How long a model stays in memory after its last request, as in 5m or 1h30m; requests to Ollama's "
    "API may say otherwise. [default: -1, as long as there is room]",
)
OPTIONS = (CONTEXT, KV_MEMORY, MAX_MEMORY, KEEP_ALIVE)


def host_options(command: Body) -> Body:
    """Give a command these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
