"""`rase serve`"""

import importlib.util
from typing import TYPE_CHECKING

import click
from rase_core.errors import EngineError

from rase_cli.allocator import give_large_blocks_back
from rase_cli.logs import LEVELS, show_server_logs
from rase_cli.model_host_options import host_options
from rase_cli.number import WholeNumber
from rase_cli.open_files import open_as_many_as_may_be
from rase_cli.output import note, warn
from rase_cli.registering import no_models
from rase_cli.server_options import server_options, server_settings
from rase_cli.settings import (
    DEVICE,
    KV_TYPE,
    STORE,
    THREADS,
    EngineOptions,
    Settings,
    open_engine,
    pass_settings,
    shared_options,
)

if TYPE_CHECKING:
    from rase_core.scheduler import SchedulerLimits
    from rase_models.engine import Engine

SERVER_PACKAGES = ("rase_api", "fastapi", "uvicorn")


class ServerNotInstalled(EngineError):
    """The packages of the HTTP server are not here: how to get them."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"the server is not installed: no package {missing}", 'pip install "rase-cli[serve]"'
        )


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=8080,
    show_default=True,
    metavar="PORT",
    help="0 takes a free port.",
)
@host_options
@click.option(
    "--preload",
    multiple=True,
    metavar="MODEL",
    help="Load a model when the server starts; may be repeated. /ready answers when they are there.",
)
@click.option(
    "--max-queue",
    type=WholeNumber(min=0),
    default=64,
    show_default=True,
    metavar="N",
    help="The most requests to a model that wait; the rest are refused.",
)
@click.option(
    "--draft-tokens",
    type=WholeNumber(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="The most tokens that are guessed ahead of an answer; texts are the same with 0.",
)
@click.option("--workers", type=int, default=1, hidden=True)
@server_options
@click.option(
    "--log-level",
    type=click.Choice(list(LEVELS)),
    default="info",
    show_default=True,
    help="What is logged; info has a line for each request.",
)
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def serve(
    settings: Settings,
    /,
    host: str,
    port: int,
    context_length: int | None,
    kv_memory: int | None,
    max_memory: int | None,
    keep_alive: float | None,
    preload: tuple[str, ...],
    max_queue: int,
    draft_tokens: int,
    workers: int,
    log_level: str,
    grace: int,
    **server: object,
) -> None:
    """Serve all registered models over HTTP, with the APIs of OpenAI, Anthropic and Ollama.

    Models are loaded when first asked for. Ctrl-C or SIGTERM ends the server, a second one also the requests
    that it waits for then.
    """
    _require_server()
    from rase_api import SeveralWorkers
    from rase_api import serve as run

    if workers != 1:
        raise SeveralWorkers(workers)
    give_large_blocks_back()
    open_as_many_as_may_be()
    show_server_logs(log_level, as_json=bool(server["json_log"]))
    own: EngineOptions = {
        "context_length": context_length,
        "kv_memory": kv_memory,
        "max_memory": max_memory,
        "keep_alive": keep_alive,
        "limits": _limits(max_queue, draft_tokens),
    }
    with open_engine(settings, **own) as engine:
        run(
            engine,
            host,
            port,
            on_ready=lambda url: _announce(engine, url),
            grace=grace,
            preload=preload,
            **server_settings(server),
        )


def _limits(max_queue: int, draft_tokens: int) -> "SchedulerLimits":
    from rase_core.scheduler import SchedulerLimits

    return SchedulerLimits(waiting=max_queue, draft_tokens=draft_tokens)


def _require_server() -> None:
    for package in SERVER_PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ServerNotInstalled(package)


def _announce(engine: "Engine", url: str) -> None:
    ids = [manifest.id for manifest in engine.list_models()]
    for error in engine.broken_manifests():
        warn(error.message)
    if not ids:
        warn(no_models(engine.store))
    note(f"serving {', '.join(ids) or 'nothing'} at {url}/v1 (Ctrl-C to stop)", None)
