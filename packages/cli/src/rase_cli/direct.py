"""Using a model's decoder itself, without the engine and its scheduler."""

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from rase_cli.interrupts import interruptible
from rase_cli.logs import show_logs
from rase_cli.progress import Progress
from rase_cli.settings import Settings, open_engine

if TYPE_CHECKING:
    from rase_models.decoder import ProgramDecoder


def weights_and_tokenizer(settings: Settings, model: str) -> tuple[Path, Path]:
    """Return the files of a registered id or of a GGUF's path; an existing file comes before an id."""
    if Path(model).is_file():
        return Path(model), Path(model)
    with open_engine(settings) as engine:
        manifest = engine.inspect(model)
        return manifest.weights_path, manifest.tokenizer or manifest.weights_path


def load(settings: Settings, weights: Path, context_length: int) -> "ProgramDecoder":
    """Load a model for so many tokens, with progress on stderr."""
    from rase_models.loading import load_decoder

    show_logs()
    stop = Event()
    with Progress(stop) as progress, interruptible(stop):
        return load_decoder(
            weights,
            device(settings),
            settings.thread_counts(),
            context_length=context_length,
            progress=progress,
        )


def device(settings: Settings) -> str:
    """Return the backend that computes."""
    from rase_models.device_check import choose_device

    return choose_device(settings.device)
