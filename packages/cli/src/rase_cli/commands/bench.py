"""`rase bench`"""

from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from rase_cli.interrupts import interruptible
from rase_cli.logs import show_logs
from rase_cli.measure import Workload, measure
from rase_cli.output import emit_fields, emit_json
from rase_cli.progress import Progress
from rase_cli.settings import DEVICE, STORE, THREADS, Settings, open_engine, pass_settings, shared_options

if TYPE_CHECKING:
    from rase_core.decoder import BatchDecoder


@click.command()
@click.argument("model", metavar="MODEL")
@click.option(
    "--prompt-tokens", type=click.IntRange(min=0), default=512, show_default=True, help="Tokens to prefill."
)
@click.option(
    "--gen-tokens", type=click.IntRange(min=0), default=128, show_default=True, help="Tokens to decode."
)
@click.option("--depth", type=click.IntRange(min=0), default=0, show_default=True, help="Tokens before them.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds; medians count."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object to standard output.")
@shared_options(STORE, DEVICE, THREADS)
@pass_settings
def bench(
    settings: Settings,
    model: str,
    prompt_tokens: int,
    gen_tokens: int,
    depth: int,
    repeat: int,
    as_json: bool,
) -> None:
    """Measure a model's speed: forward passes only, no sampling.

    MODEL is a registered id or the path of a GGUF file. Each round prefills the prompt, with the logits of
    its last token, and decodes after it; one round warms up.
    """
    path = _weights(settings, model)
    work = Workload(prompt_tokens, gen_tokens, depth, repeat)
    speeds = measure(lambda: _load(path, settings, work), work)
    record = asdict(speeds) | {"backend": _device(settings), "threads": settings.threads}
    return emit_json(record, indent=None) if as_json else emit_fields(record)


def _weights(settings: Settings, model: str) -> Path:
    """Return the file that MODEL names; an existing file comes before an id."""
    if Path(model).is_file():
        return Path(model)
    with open_engine(settings) as engine:
        return engine.inspect(model).weights_path


def _load(path: Path, settings: Settings, work: Workload) -> "BatchDecoder":
    from rase_models.loading import load_decoder

    show_logs()
    stop = Event()
    with Progress(stop) as progress, interruptible(stop):
        return load_decoder(
            path, _device(settings), settings.threads, context_length=work.context_length, progress=progress
        )


def _device(settings: Settings) -> str:
    from rase_models.device_check import choose_device

    return choose_device(settings.device)
