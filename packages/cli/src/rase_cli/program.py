"""The `rase` command."""

import sys

import click

from rase_cli.failures import Failure, exit_code
from rase_cli.lazy import LazyGroup
from rase_cli.settings import DEVICE, STORE, THREADS, Settings, shared_options
from rase_cli.system_errors import writing_output
from rase_cli.terminal import replace_closed_streams, tolerate_narrow_encodings

COMMANDS = {
    "chat": ("rase_cli.commands.chat:chat", "Talk to a model, or ask it one question."),
    "generate": ("rase_cli.commands.generate:generate", "Continue a text, without a chat template."),
    "render": ("rase_cli.commands.render:render", "Show the prompt that a conversation becomes."),
    "model": ("rase_cli.commands.model:model", "Register, list, check and remove models."),
    "serve": ("rase_cli.commands.serve:serve", "Serve the models over HTTP, as OpenAI does."),
    "ps": ("rase_cli.commands.ps:ps", "List the models that a server has in memory."),
    "stop": ("rase_cli.commands.stop:stop", "Let a server let go of a model's memory."),
    "runtime": ("rase_cli.commands.runtime:runtime", "Look at what this machine can run on."),
    "batch": ("rase_cli.commands.batch:batch", "Work off a file of tasks."),
    "bench": ("rase_cli.commands.bench:bench", "Measure a model's speed."),
    "perplexity": ("rase_cli.commands.perplexity:perplexity", "Measure how well a model predicts a text."),
}


class Program(LazyGroup):
    """The root group: the one place where errors become messages and exit codes."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the chosen command; every error but click's own becomes a Failure."""
        settings = ctx.ensure_object(Settings)
        try:
            result = super().invoke(ctx)
            with writing_output():
                sys.stdout.flush()
            return result
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise Failure(error, debug=settings.debug) from error


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"rase {version('rase-cli')}")
    ctx.exit()


@click.command(
    cls=Program,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@shared_options(STORE, DEVICE, THREADS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def program() -> None:
    """Run GGUF language models on this machine: register, verify, chat, serve."""


def run() -> int:
    """Run `rase` with the process's arguments and return its exit code, once all output is written."""
    replace_closed_streams()
    tolerate_narrow_encodings()
    try:
        with writing_output():  # click's own: help and version
            code = _run()
            sys.stdout.flush()
    except OSError as error:
        Failure(error, debug=False).show()
        return exit_code(error)
    return code


def _run() -> int:
    try:
        program(prog_name="rase")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
