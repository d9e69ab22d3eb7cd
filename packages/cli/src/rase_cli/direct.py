"""Using a model's decoder itself, without the engine and its scheduler."""

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click
from rase_core.errors import InvalidModelId, InvalidParameter, ModelNotFound
from rase_core.model_file import regular_file

from rase_cli.interrupts import interruptible
from rase_cli.logs import show_logs
from rase_cli.progress import Progress
from rase_cli.settings import Settings, open_engine

if TYPE_CHECKING:
    from rase_core.manifest import ModelManifest
    from rase_models.chat import ChatTemplate
    from rase_models.decoder import ProgramDecoder
    from rase_models.session_loader import SessionLoader
    from rase_models.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The weights that are used; `manifest` is that of a registered model, whose files are verified."""

    settings: Settings
    weights: Path
    manifest: "ModelManifest | None" = None

    def tokenizer(self) -> "Tokenizer":
        """Return the tokenizer. Raises IntegrityMismatch, and what `open_gguf` and `load_tokenizer` raise."""
        from rase_models.gguf import open_gguf
        from rase_models.session_loader import registered_tokenizer
        from rase_models.tokenizers import tokenizer_from_gguf

        if self.manifest is not None:
            return registered_tokenizer(self.manifest)
        return tokenizer_from_gguf(open_gguf(self.weights))

    def template(self, tokenizer: "Tokenizer") -> "ChatTemplate":
        """Return the chat template. Raises TemplateError, and what `open_gguf` raises."""
        from rase_models.chat import choose_template
        from rase_models.gguf import open_gguf
        from rase_models.session_loader import registered_template

        if self.manifest is not None:
            return registered_template(self.manifest, tokenizer)
        file = open_gguf(self.weights)
        return choose_template(None, file, file.architecture, tokenizer)

    def load(self, context_length: int) -> "ProgramDecoder":
        """Load the model for so many tokens, with progress on stderr.

        What is measured is of one device: the CPU does not take over from one that fails.

        Raises:
            click.UsageError: more tokens than the model's context.
            IntegrityMismatch: a registered file is not the one that was registered.
        """
        from rase_models.session_loader import SessionLoader

        show_logs()
        stop = Event()
        try:
            with Progress(stop) as progress, interruptible(stop):
                loader = SessionLoader(
                    self.settings.thread_counts(),
                    progress=progress,
                    kv_type=self.settings.kv_type,
                    gpu_layers=self.settings.gpu_layers,
                )
                return self._load(loader, context_length)
        except InvalidParameter as error:
            if error.parameter != "context_length":
                raise
            raise click.UsageError(
                f"{context_length} tokens are asked for at once, but the context holds {error.expected}"
            ) from error

    def _load(self, loader: "SessionLoader", context_length: int) -> "ProgramDecoder":
        from rase_models.gguf import open_gguf
        from rase_models.gpu_layers import check_gpu_layers, layers_of
        from rase_models.loading import load_gguf

        name = device(self.settings)
        if self.manifest is not None:
            return loader.bare_decoder(self.manifest, name, context_length)
        file = open_gguf(self.weights)
        check_gpu_layers(loader.gpu_layers, layers_of(file), name)
        return load_gguf(
            file,
            name,
            loader.threads,
            context_length=context_length,
            kv_type=loader.kv_type,
            progress=loader.progress,
        )


def choose(settings: Settings, model: str) -> ChosenModel:
    """Return the model of a registered id or of a GGUF's path; an existing file comes before an id.

    Raises ModelNotFound, InvalidModelId, InvalidManifest, and ModelFileNotFound for a path to no file.
    """
    if model and Path(model).is_file():
        return ChosenModel(settings, Path(model))
    try:
        with open_engine(settings) as engine:
            manifest = engine.inspect(model)
    except (ModelNotFound, InvalidModelId):
        if model and _is_path(Path(model)):
            return ChosenModel(settings, regular_file(Path(model)))
        raise
    return ChosenModel(settings, manifest.weights_path, manifest)


def _is_path(path: Path) -> bool:
    """Tell whether something is there, or a word is written as if a file should be."""
    return len(path.parts) > 1 or path.suffix.lower() == ".gguf" or os.path.lexists(path)


def device(settings: Settings) -> str:
    """Return the backend that computes."""
    from rase_models.device_check import choose_device
    from rase_models.gpu_layers import device_for

    return choose_device(device_for(settings.device, settings.gpu_layers))
