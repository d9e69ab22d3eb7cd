"""`rase stop MODEL`"""

import click

from rase_cli.output import note
from rase_cli.running_server import RunningServer, of_server
from rase_cli.settings import Settings, pass_settings, shared_options


@click.command()
@click.argument("model")
@of_server
@shared_options()
@pass_settings
def stop(settings: Settings, /, model: str, url: str, api_key: str | None) -> None:
    """Let a running server let go of MODEL's memory, once the requests under way are answered."""
    had = RunningServer(url, api_key).unload(model)
    note(f"{model} leaves the memory of {url}" if had else f"{model} is not in the memory of {url}", None)
