"""Which model a chat is with, and whether a lone argument is a model or a question."""

import difflib
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rase_core.errors import ModelNotFound

from rase_cli.demo import DEMO_ID, refresh_demo, register_first_model
from rase_cli.output import note

if TYPE_CHECKING:
    from rase_models.engine import Engine

VARIABLE = "RASE_MODEL"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*([/:][A-Za-z0-9._-]+)*", re.ASCII)


def split_arguments(
    first: str | None,
    second: str | None,
    model_id: str | None,
    known: Collection[str],
    missing_store: Path | None = None,
) -> tuple[str | None, str | None]:
    """Return (model, prompt) of `rase chat [MODEL] [PROMPT]` and `--model`.

    A lone argument is the model if it is the id of one, else the prompt, if it does not look like a model.
    `missing_store` is for the error of a store that is not there.

    Raises:
        click.UsageError: two models, or a lone word that is nearly an id or names a file.
        ModelNotFound: a lone word that could be a model's name, here, on the Hub or with Ollama.
    """
    if model_id is not None and second is not None:
        raise click.UsageError("give the model once: as MODEL or as --model")
    if model_id is not None or second is not None:
        return (model_id, first) if model_id is not None else (first, second)
    if first in known:
        return first, None
    if first is not None:
        _refuse_mistaken_model(first, known, missing_store)
    return None, first


def known_names(engine: "Engine") -> list[str]:
    """Return the ids and aliases of the registered models."""
    return [name for manifest in engine.list_models() for name in (manifest.id, *manifest.aliases)]


def refuse_file(word: str, known: Collection[str]) -> None:
    """Raise click.UsageError for a file in the place of a model's name: a path, or a GGUF of this folder."""
    is_path = os.path.basename(word) != word or word.lower().endswith(".gguf")  # noqa: PTH119 - as "./x" has it
    if is_path and word not in known and os.path.isfile(word):  # noqa: PTH113 - Path's refuses long names
        raise _is_a_file(word)


def _is_a_file(word: str) -> click.UsageError:
    return click.UsageError(f"{word} is a file: register it with `rase model import {word} --id ID`")


def _refuse_mistaken_model(word: str, known: Collection[str], missing_store: Path | None) -> None:
    if word == "-" or any(character.isspace() for character in word):
        return
    if word.lower().endswith(".gguf"):
        raise _is_a_file(word)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.8)
    if near:
        raise click.UsageError(f"no model {word!r}, did you mean {near[0]!r}? (for a prompt, add --model ID)")
    if _NAME.fullmatch(word):
        raise ModelNotFound(
            word,
            known,
            "register it with `rase model import` or `rase model pull`; "
            f"for a prompt of one word, name the model, too: `rase chat --model ID {word}`",
            missing_store,
        )


def default_model(engine: "Engine") -> str:
    """Return the model to use when none is named, and say which.

    The one of the variable RASE_MODEL, else the only registered generator, the demo model not counted beside
    others; with none registered, the demo model or a download.

    Raises:
        click.UsageError: several models could be meant.
        NoModelRegistered: there is none and none to be had.
    """
    if chosen := os.environ.get(VARIABLE):
        note(f"using {chosen} of {VARIABLE}")
        return chosen
    ids = [manifest.id for manifest in engine.list_models() if manifest.kind.value == "generator"]
    if not ids:
        return register_first_model(engine)
    own = [model_id for model_id in ids if model_id != DEMO_ID] or ids
    if len(own) > 1:
        raise click.UsageError(f"several models are registered, name one: {', '.join(ids)}")
    note(f"using {own[0]}")
    return refresh_demo(engine, own[0])
