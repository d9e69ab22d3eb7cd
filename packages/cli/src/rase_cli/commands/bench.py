"""`rase bench`"""

import os
from dataclasses import asdict

import click

from rase_cli.direct import choose, device
from rase_cli.measure import Workload, measure
from rase_cli.number import WholeNumber
from rase_cli.output import emit_fields, emit_json, emit_table
from rase_cli.run_times import COLUMNS, lines
from rase_cli.settings import DEVICE, KV_TYPE, STORE, THREADS, Settings, pass_settings, shared_options


@click.command()
@click.argument("model", metavar="MODEL")
@click.option(
    "--prompt-tokens", type=WholeNumber(min=0), default=512, show_default=True, help="Tokens to prefill."
)
@click.option(
    "--gen-tokens", type=WholeNumber(min=0), default=128, show_default=True, help="Tokens to decode."
)
@click.option("--depth", type=WholeNumber(min=0), default=0, show_default=True, help="Tokens before them.")
@click.option(
    "--sequences",
    type=WholeNumber(min=1, max=512),
    default=1,
    show_default=True,
    help="Sequences that decode together.",
)
@click.option(
    "--repeat", type=WholeNumber(min=1), default=3, show_default=True, help="Rounds; medians count."
)
@click.option("--profile", is_flag=True, help="Show where the time went.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object to standard output.")
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def bench(
    settings: Settings,
    model: str,
    prompt_tokens: int,
    gen_tokens: int,
    depth: int,
    sequences: int,
    repeat: int,
    profile: bool,
    as_json: bool,
) -> None:
    """Measure a model's speed: forward passes only, no sampling.

    MODEL is a registered id, whose files are verified, or the path of a GGUF file. Each round prefills the
    prompt, with the logits of its last token, and decodes after it; one round warms up. With several
    sequences, decode_tok_s counts the tokens of all of them. The figures are of one device: when that fails,
    the CPU does not take over as it does in serving.
    """
    if not (prompt_tokens or gen_tokens):
        raise click.UsageError("nothing to measure: give --prompt-tokens or --gen-tokens more than 0")
    if profile:
        os.environ["RASE_PROFILE"] = "1"
    chosen = choose(settings, model)
    work = Workload(prompt_tokens, gen_tokens, depth, repeat, sequences)
    speeds = measure(lambda: chosen.load(work.context_length), work)
    record = asdict(speeds) | {"backend": device(settings)}
    counts = _counts() if profile else {}
    if as_json:
        emit_json(record | ({"profile": counts} if profile else {}), indent=None)
    else:
        emit_fields(record)
        if profile:
            emit_table(COLUMNS, list(lines(counts, chosen.weights)))


def _counts() -> dict[str, int]:
    from rase_models.backends.run_counters import RUN_COUNTERS

    return RUN_COUNTERS.snapshot()
