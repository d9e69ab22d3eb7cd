"""Files from the Hugging Face hub."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.manifest import ModelSource
from rase_core.progress import Progress


@dataclass(frozen=True, slots=True)
class PulledModel:
    """Files that are on this machine now: absolute paths in order, their sha256, and where they came from."""

    paths: tuple[Path, ...]
    sha256: Mapping[Path, str]
    source: ModelSource


def pull(
    repo: str, file: str | None = None, *, revision: str | None = None, progress: Progress | None = None
) -> PulledModel:
    """Download a file (`file`, or `repo` as `owner/name:QUANT`) with all its split parts and check its sha256."""
    raise NotImplementedError
