"""`rase perplexity`"""

import sys
from pathlib import Path

import click

from rase_cli.direct import choose
from rase_cli.file_path import FilePath
from rase_cli.number import WholeNumber
from rase_cli.output import emit_fields, emit_json, note
from rase_cli.prompts import read_text
from rase_cli.settings import DEVICE, KV_TYPE, STORE, THREADS, Settings, pass_settings, shared_options
from rase_cli.terminal import is_terminal


@click.command()
@click.argument("model", metavar="MODEL")
@click.argument("file", type=FilePath())
@click.option(
    "--window",
    type=WholeNumber(min=4),
    default=512,
    show_default=True,
    help="Tokens that are read together.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object to standard output.")
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def perplexity(settings: Settings, model: str, file: Path, window: int, as_json: bool) -> None:
    """Measure how well a model predicts a text; less is better.

    MODEL is a registered id or the path of a GGUF file, FILE a UTF-8 text. The text is cut into windows,
    and the second half of each one counts, as in llama.cpp's tool of this name. When the device that computes
    fails, the CPU does not take over as it does in serving.
    """
    from rase_models.perplexity import perplexity_by_window

    chosen = choose(settings, model)
    tokenizer = chosen.tokenizer()
    tokens = tokenizer.encode(read_text(file), parse_special=False)
    decoder = chosen.load(window)
    bos = tokenizer.bos_token_id if tokenizer.add_bos else None
    for done, windows, result in perplexity_by_window(decoder, tokens, bos, window):
        if is_terminal(sys.stderr):
            note(f"window {done} of {windows}: {result.value:.4f}")
    record = {
        "perplexity": round(result.value, 4),
        "error": round(result.error, 4),
        "windows": windows,
        "predictions": result.predictions,
    }
    return emit_json(record, indent=None) if as_json else emit_fields(record)
