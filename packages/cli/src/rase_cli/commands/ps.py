"""`rase ps`"""

import sys
from datetime import UTC, datetime

import click

from rase_cli.output import emit_json, emit_table, human_size, note
from rase_cli.running_server import RunningServer, of_server
from rase_cli.settings import Settings, pass_settings, shared_options
from rase_cli.terminal import is_terminal

_NEVER = "9999"
_COLUMNS = ("model", "memory", "context", "until", "limit")


@click.command()
@of_server
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@shared_options()
@pass_settings
def ps(settings: Settings, /, url: str, api_key: str | None, as_json: bool) -> None:
    """List the models that a running server has in memory.

    In a pipe: one line for each, tab-separated: id, the bytes that it takes, context length, when it goes
    unless it is used, or "never", and the most bytes that it may take.
    """
    models = RunningServer(url, api_key).models()
    if as_json:
        return emit_json({"models": models})
    write = _shown if is_terminal(sys.stdout) else _plain
    emit_table(_COLUMNS, [write(model) for model in models])
    if not models:
        note("no model is in memory; the first request to one loads it")
    return None


def _plain(model: dict[str, object]) -> tuple[object, ...]:
    until = str(model.get("expires_at"))
    until = "never" if until.startswith(_NEVER) else until
    return model.get("name"), model.get("size"), model.get("context_length"), until, model.get("size_limit")


def _shown(model: dict[str, object]) -> tuple[object, ...]:
    name, size, context, until, limit = _plain(model)
    return name, _size(size), context, _left(str(until)), _size(limit)


def _size(nbytes: object) -> object:
    return human_size(nbytes) if isinstance(nbytes, int) else nbytes


def _left(until: str) -> str:
    """Return how long it is until a time in the form of ISO 8601, in a person's words."""
    try:
        seconds = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return until
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"in {seconds / size:.0f} {unit}"
    return f"in {max(seconds, 0):.0f} seconds"
