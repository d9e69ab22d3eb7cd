"""`rase chat`"""

from threading import Event
from typing import TYPE_CHECKING

import click

from rase_cli.conversation import Conversation, talk
from rase_cli.failures import INTERRUPTED
from rase_cli.format_options import format_options, taken_format
from rase_cli.interrupts import interruptible
from rase_cli.model_choice import default_model, known_names, refuse_file, split_arguments
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

if TYPE_CHECKING:
    from rase_models.engine import Engine


@click.command()
@click.argument("first", metavar="[MODEL]", required=False)
@click.argument("second", metavar="[PROMPT]", required=False)
@click.option(
    "--model", "-m", "model_id", metavar="ID", help="The model. [default: $RASE_MODEL, else the only one]"
)
@click.option("--system", metavar="TEXT", help="What the model is told before the conversation.")
@click.option("--stats", is_flag=True, help="Show token counts and speeds after each answer.")
@format_options
@sampling_options
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def chat(
    settings: Settings,
    /,
    first: str | None,
    second: str | None,
    model_id: str | None,
    system: str | None,
    stats: bool,
    **sampling: object,
) -> None:
    """Talk to a model, or ask it one question.

    A lone argument is the MODEL if a model of that id is registered, else it is the PROMPT, unless it is one
    word that could be a model's name. Without a PROMPT
    the conversation is typed; piped input, or "-", is read as the PROMPT. Without a MODEL the only registered
    one is used, and if there is none yet, a small demo model.

    \b
    rase chat "What is the capital of France?"
    rase chat my-model --system "Answer in one word." "The capital of Norway?"
    rase chat my-model < question.txt
    """
    form = taken_format(sampling)
    stop = Event()
    with open_engine(settings, stop=stop) as engine:
        chosen, prompt = _choose(engine, first, second, model_id)
        config = build_config(engine, chosen, sampling)
        with interruptible(stop):
            engine.load(chosen)
        converse(Conversation(engine, chosen, config, system, stats, form), prompt)


def _choose(
    engine: "Engine", first: str | None, second: str | None, model_id: str | None
) -> tuple[str, str | None]:
    """Return the model and the prompt, None where it is to be typed."""
    known = known_names(engine)
    store = None if engine.store.exists() else engine.store
    named, text = split_arguments(first, second, model_id, known, store)
    if named is not None:
        refuse_file(named, known)
    prompt = read_prompt(text)
    return default_model(engine) if named is None else named, prompt


def converse(conversation: Conversation, prompt: str | None) -> None:
    """Answer one prompt, or as many as are typed; a stopped single answer exits as interrupted."""
    if prompt is None:
        return talk(conversation)
    if conversation.ask(prompt).stop_reason.value == "cancelled":
        raise click.exceptions.Exit(INTERRUPTED)
    return None
