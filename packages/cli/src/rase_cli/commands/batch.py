"""`rase batch`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase_cli.batch_progress import BatchProgress
from rase_cli.failures import ERROR
from rase_cli.file_path import FilePath
from rase_cli.number import Number, WholeNumber
from rase_cli.output import emit_json, note, warn
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
    from rase_models.batch import BatchLimits, Summary


@click.command()
@click.argument("tasks", metavar="IN.jsonl", type=FilePath(exists=True, dir_okay=False))
@click.argument("results", metavar="OUT.jsonl", type=FilePath(dir_okay=False))
@click.option(
    "--concurrency",
    type=WholeNumber(1, 64),
    default=32,
    show_default=True,
    help="The most tasks under way.",
)
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="The most time of a try of a task. [default: none]",
)
@click.option("--max-tokens", type=WholeNumber(min=0), metavar="N", help="The most tokens of any answer.")
@click.option(
    "--retries",
    type=WholeNumber(min=0),
    default=2,
    show_default=True,
    help="Further tries after a failure that may pass.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the summary to standard output as JSON.")
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def batch(
    settings: Settings,
    tasks: Path,
    results: Path,
    concurrency: int,
    timeout: float | None,
    max_tokens: int | None,
    retries: int,
    as_json: bool,
) -> None:
    """Work off a file of tasks, and write a result for each of its lines.

    IN.jsonl has the form of OpenAI's batch files, for /v1/chat/completions and /v1/completions. Lines that
    have a result in OUT.jsonl already are left out, so that a batch that was ended goes on when it is begun
    again; errors that may pass, such as timeouts, are tried again, and lines that were no tasks are read
    again. Results come in the order in which they are ready. Exits with 1 when any line has none but an
    error, also one of an earlier run.

    \b
    {"custom_id": "a", "url": "/v1/chat/completions", "body":
     {"model": "my-model", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50}}
    """
    from rase_models.batch import BatchLimits

    limits = BatchLimits(concurrency, timeout, max_tokens, retries)
    summary = _run(settings, tasks, results, limits)
    if as_json:
        emit_json(_fields(summary))
    else:
        note(_sentence(summary), None)
    if summary.errors:
        raise click.exceptions.Exit(ERROR)


def _run(settings: Settings, tasks: Path, results: Path, limits: "BatchLimits") -> "Summary":
    from rase_models.batch import run_file

    try:
        with open_engine(settings) as engine, BatchProgress() as progress:
            return run_file(
                engine,
                tasks,
                results,
                limits,
                on_progress=progress,
                on_invalid=lambda invalid: warn(invalid.message),
            )
    except KeyboardInterrupt:
        note(f"the same command goes on where {results} ends", None)
        raise


def _fields(summary: "Summary") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(summary) | {"tokens_per_second": _speed(summary)}


def _sentence(summary: "Summary") -> str:
    counts = {
        "answered": summary.answered,
        "failed": summary.failed,
        "invalid": summary.invalid,
        "done earlier": summary.earlier - summary.earlier_failed,
        "failed earlier": summary.earlier_failed,
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to do"
    return f"{told}; {summary.tokens} tokens in {summary.seconds:.1f} s, {_speed(summary)}/s"


def _speed(summary: "Summary") -> float:
    return round(summary.tokens / max(summary.seconds, 1e-9), 1)
