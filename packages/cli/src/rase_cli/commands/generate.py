"""`rase generate`"""

import sys
from pathlib import Path
from threading import Event

import click

from rase_cli.conversation import describe_end
from rase_cli.failures import INTERRUPTED
from rase_cli.file_path import FilePath
from rase_cli.format_options import format_options, taken_format
from rase_cli.interrupts import interruptible, stop_on_interrupt
from rase_cli.model_choice import known_names, refuse_file
from rase_cli.output import answer
from rase_cli.prompts import read_prompt
from rase_cli.sampling_options import build_config, sampling_options
from rase_cli.settings import (
    DEVICE,
    KV_TYPE,
    STORE,
    THREADS,
    Settings,
    open_engine,
    pass_settings,
    shared_options,
)
from rase_cli.terminal import is_terminal


@click.command()
@click.argument("model_id", metavar="MODEL")
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option("--prompt-file", type=FilePath(), help="Read the PROMPT from a file.")
@click.option("--stats", is_flag=True, help="Show token counts and speeds afterwards.")
@format_options
@sampling_options
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def generate(
    settings: Settings,
    /,
    model_id: str,
    prompt: str | None,
    prompt_file: Path | None,
    stats: bool,
    **sampling: object,
) -> None:
    """Continue a text with a model, without a chat template.

    The continuation alone goes to standard output, exactly as the model wrote it. The PROMPT is the argument,
    the file, or standard input; the file's or the input's last line break is dropped.
    """
    form = taken_format(sampling)
    text = read_prompt(prompt, prompt_file)
    if text is None:
        raise click.UsageError("no prompt: give PROMPT, --prompt-file, or pipe it in")
    stop = Event()
    with open_engine(settings, stop=stop) as engine:
        refuse_file(model_id, known_names(engine))
        config = build_config(engine, model_id, sampling)
        with interruptible(stop):
            engine.load(model_id)
        with stop_on_interrupt(stop):
            generation = engine.generate(
                model_id, text, config, on_text=answer, cancelled=stop.is_set, response_format=form
            )
    if is_terminal(sys.stdout):
        answer("\n")
    describe_end(generation, statistics=stats)
    if generation.stop_reason.value == "cancelled":
        raise click.exceptions.Exit(INTERRUPTED)
