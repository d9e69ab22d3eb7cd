"""The models that may run: a folder of manifests, one per model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.errors import InvalidManifest
from rase_core.manifest import ModelKind, ModelManifest, ModelSource
from rase_core.progress import Progress


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a weights file says about itself; `aliases` are further names that its architecture may be given."""

    architecture: str | None = None
    context_length: int | None = None
    aliases: frozenset[str] = frozenset()


Describe = Callable[[Path], ModelFacts]


def default_store() -> Path:
    """Return the store to use when none is named: `RASE_STORE`, else the user's data folder."""
    raise NotImplementedError


class ModelRegistry:
    """The manifests under a store's `manifests` folder. Safe between threads and processes."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def import_local(
        self,
        path: Path,
        model_id: str,
        *,
        kind: ModelKind = ModelKind.GENERATOR,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        template_file: Path | None = None,
        tokenizer: Path | None = None,
        defaults: Mapping[str, object] | None = None,
        source: ModelSource | None = None,
        known_sha256: Mapping[Path, str] | None = None,
        describe: Describe | None = None,
        progress: Progress | None = None,
    ) -> ModelManifest:
        """Register a file in place, with all its parts when it is split."""
        raise NotImplementedError

    def attach_tokenizer(self, model_id: str, path: Path) -> ModelManifest:
        """Let a model use this tokenizer.json."""
        raise NotImplementedError

    def get(self, model_id: str) -> ModelManifest:
        """Return a model's manifest. Raises ModelNotFound, InvalidModelId, InvalidManifest."""
        raise NotImplementedError

    def list(self) -> list[ModelManifest]:
        """Return every readable manifest, by id."""
        raise NotImplementedError

    def broken(self) -> list[InvalidManifest]:
        """Return why each unreadable manifest is unreadable, by file name."""
        raise NotImplementedError

    def verify(self, model_id: str, progress: Progress | None = None) -> ModelManifest:
        """Hash a model's files against its manifest. Raises IntegrityMismatch, ModelFileNotFound."""
        raise NotImplementedError

    def remove(self, model_id: str) -> None:
        """Forget a model; its weights stay."""
        raise NotImplementedError
