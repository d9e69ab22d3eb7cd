"""The registered models: bringing them in, looking at them, checking them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rase_core.errors import InvalidGenerationConfig, InvalidManifest
from rase_core.manifest import ModelKind, ModelManifest
from rase_core.progress import Progress
from rase_core.registry import ModelFacts, ModelRegistry, default_store
from rase_core.sampling import GenerationConfig

from rase_models.registration import describe_gguf
from rase_models.tokenizers import load_tokenizer


class ModelStore:
    """The models of one store, with everything about them read from their files. Thread-safe.

    Args:
        store: the folder of the registered models; None for `default_store()`.
        progress: told about hashing and downloading, in the thread that does it.
    """

    def __init__(self, store: Path | str | None = None, *, progress: Progress | None = None) -> None:
        self._registry = ModelRegistry(default_store() if store is None else Path(store))
        self._progress = progress

    @property
    def store(self) -> Path:
        """The folder of the registered models."""
        return self._registry.store

    def pull(
        self,
        repo: str,
        file: str | None,
        model_id: str,
        *,
        kind: ModelKind = ModelKind.GENERATOR,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        tokenizer_repo: str | None = None,
        tokenizer_file: str | None = None,
        revision: str | None = None,
    ) -> ModelManifest:
        """Download a model from Hugging Face, with a tokenizer.json when one is named, and register it.

        Raises HubError, and what `import_model` raises.
        """
        from rase_core import hub

        pulled = hub.pull(repo, file, revision=revision, progress=self._progress)
        sha256, tokenizer = dict(pulled.sha256), None
        if tokenizer_repo is not None or tokenizer_file is not None:
            source, revision = (tokenizer_repo, None) if tokenizer_repo else (pulled.source.repo, revision)
            name = tokenizer_file or "tokenizer.json"
            found = hub.pull(source, name, revision=revision, progress=self._progress)
            tokenizer = found.paths[0]
            sha256 |= found.sha256
        _check_tokenizer(tokenizer)
        return self._registry.import_local(
            pulled.paths[0],
            model_id,
            kind=kind,
            architecture=architecture,
            context_length=context_length,
            chat_template=chat_template,
            tokenizer=tokenizer,
            source=pulled.source,
            known_sha256=sha256,
            describe=_describer(context_length),
            progress=self._progress,
        )

    def import_model(
        self,
        path: Path | str,
        model_id: str,
        *,
        kind: ModelKind = ModelKind.GENERATOR,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        template_file: Path | str | None = None,
        tokenizer: Path | str | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> ModelManifest:
        """Register a GGUF file in place, with all parts when it is split; see ModelRegistry.import_local.

        Raises, besides what that raises, UnsupportedArchitecture, InvalidGguf and UnsupportedTensorType for a
        file that could not be run, InvalidGenerationConfig for a context longer than the model's, and
        TokenizerError.
        """
        _check_tokenizer(tokenizer)
        return self._registry.import_local(
            Path(path),
            model_id,
            kind=kind,
            architecture=architecture,
            context_length=context_length,
            chat_template=chat_template,
            template_file=None if template_file is None else Path(template_file),
            tokenizer=None if tokenizer is None else Path(tokenizer),
            defaults=defaults,
            describe=_describer(context_length),
            progress=self._progress,
        )

    def attach_tokenizer(self, model_id: str, path: Path | str) -> ModelManifest:
        """Let a model use a tokenizer.json. Raises ModelNotFound, ModelFileNotFound, TokenizerError."""
        self._registry.get(model_id)
        _check_tokenizer(path)
        return self._registry.attach_tokenizer(model_id, Path(path))

    def list_models(self) -> list[ModelManifest]:
        """Return the manifests that can be read, by id."""
        return list(self._registry.list())

    def broken_manifests(self) -> list[InvalidManifest]:
        """Return what is wrong with the manifests that cannot be read."""
        return list(self._registry.broken())

    def inspect(self, model_id: str) -> ModelManifest:
        """Return a model's manifest. Raises ModelNotFound, InvalidManifest."""
        return self._registry.get(model_id)

    def verify(self, model_id: str) -> ModelManifest:
        """Hash a model's files. Raises ModelNotFound, ModelFileNotFound, IntegrityMismatch."""
        return self._registry.verify(model_id, self._progress)

    def remove(self, model_id: str) -> None:
        """Forget a model; its files stay. Raises ModelNotFound."""
        self._registry.remove(model_id)

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's sampling settings: the `[defaults]` of its manifest over the general ones."""
        return self._registry.get(model_id).default_config()


def _check_tokenizer(path: Path | str | None) -> None:
    if path is not None:
        load_tokenizer(path)


def _describer(context_length: int | None) -> Callable[[Path], ModelFacts]:
    """Return what reads a file's facts and checks that its context is as long as asked for."""

    def describe(path: Path) -> ModelFacts:
        facts = describe_gguf(path)
        own = facts.context_length
        if context_length is not None and own is not None and context_length > own:
            raise InvalidGenerationConfig("context_length", context_length, f"1 to {own}, the model's own")
        return facts

    return describe
