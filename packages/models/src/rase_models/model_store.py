"""The registered models: bringing them in, looking at them, checking them."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import NoneType

from rase_core.arguments import (
    FLAG,
    MAYBE_MAPPING,
    MAYBE_PATH,
    MAYBE_TEXT,
    PATH,
    TEXT,
    Kinds,
    check_arguments,
    instance,
    whole,
)
from rase_core.errors import InvalidManifest
from rase_core.hub import Hub, PulledModel
from rase_core.hub_listing import split_quant
from rase_core.manifest import ModelFormat, ModelKind, ModelManifest
from rase_core.neighbours import FoundModel
from rase_core.progress import Progress
from rase_core.registration import IfNew, ModelFacts, Registration
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_core.store_folder import default_store
from rase_core.weights_identity import WeightsIdentity

from rase_models.chat import check_given_template
from rase_models.registration import check_architecture, describe_gguf
from rase_models.tokenizers import load_tokenizer

_KINDS: Kinds = {
    "path": PATH,
    "repo": TEXT,
    "file": MAYBE_TEXT,
    "kind": instance("a ModelKind or None", ModelKind, NoneType),
    "architecture": MAYBE_TEXT,
    "context_length": whole(1, "tokens"),
    "chat_template": MAYBE_TEXT,
    "template_file": MAYBE_PATH,
    "tokenizer": MAYBE_PATH,
    "tokenizer_repo": MAYBE_TEXT,
    "tokenizer_file": MAYBE_TEXT,
    "revision": MAYBE_TEXT,
    "defaults": MAYBE_MAPPING,
    "replace": FLAG,
}


class ModelStore:
    """The models of one store, with everything about them read from their files. Thread-safe.

    Args:
        store: the folder of the registered models; None for `default_store()`.
        progress: told about hashing and downloading, in the thread that does it.
        hub: where models are pulled from; None for that of the environment.
    """

    def __init__(
        self, store: Path | str | None = None, *, progress: Progress | None = None, hub: Hub | None = None
    ) -> None:
        self._registry = ModelRegistry(default_store() if store is None else Path(store))
        self._progress, self._hub = progress, hub

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
        kind: ModelKind | None = None,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        tokenizer_repo: str | None = None,
        tokenizer_file: str | None = None,
        revision: str | None = None,
        replace: bool = False,
    ) -> ModelManifest:
        """Download a model from Hugging Face, with a tokenizer.json when one is named, and register it.

        What can be wrong with the request or the store, an id that is another model's among that, is found
        before the download. A file that was pulled before is brought up to date, and the model keeps what it
        was registered with. Raises HubError, and what `import_model` raises.
        """
        check_arguments(
            _KINDS,
            repo=repo,
            file=file,
            tokenizer_repo=tokenizer_repo,
            tokenizer_file=tokenizer_file,
            revision=revision,
            replace=replace,
            **_said(kind, architecture, context_length, chat_template),
        )
        registration = Registration(
            kind=kind, architecture=architecture, context_length=context_length, chat_template=chat_template
        )
        self._check(model_id, registration)
        sha256: dict[Path, str] = {}
        if tokenizer_repo is not None or tokenizer_file is not None:
            found = self._pull_tokenizer(tokenizer_repo, tokenizer_file, split_quant(repo)[0], revision)
            registration = dataclasses.replace(registration, tokenizer=found.paths[0])
            revision = revision if tokenizer_repo is not None else found.source.revision
            sha256 |= found.sha256
        check = partial(self._registry.check, model_id, registration, replace=replace)
        pulled = self._from_hub(repo, file, revision, check)
        registration = dataclasses.replace(registration, source=pulled.source)
        known = sha256 | dict(pulled.sha256)
        return self._import(pulled.paths[0], model_id, registration, known, replace=replace)

    def import_model(
        self,
        path: Path | str,
        model_id: str,
        *,
        kind: ModelKind | None = None,
        architecture: str | None = None,
        context_length: int | None = None,
        chat_template: str | None = None,
        template_file: Path | str | None = None,
        tokenizer: Path | str | None = None,
        defaults: Mapping[str, object] | None = None,
        replace: bool = False,
    ) -> ModelManifest:
        """Register a GGUF file in place, with all parts when it is split; see ModelRegistry.import_local.

        A file that is registered under this id already keeps what was set for it, where None is given now;
        its hashes and facts are taken anew. Another one is refused with ModelExists unless it is to `replace`
        that model and all that was set for it but its aliases.

        Raises, besides what that raises, UnsupportedArchitecture, InvalidGguf and UnsupportedTensorType for a
        file that could not be run, InvalidParameter for a context longer than the model's, TokenizerError and
        TemplateError for what was given and cannot be used.
        """
        check_arguments(
            _KINDS,
            path=path,
            template_file=template_file,
            tokenizer=tokenizer,
            defaults=defaults,
            replace=replace,
            **_said(kind, architecture, context_length, chat_template),
        )
        registration = Registration(
            kind=kind,
            architecture=architecture,
            context_length=context_length,
            chat_template=chat_template,
            template_file=None if template_file is None else Path(template_file),
            tokenizer=None if tokenizer is None else Path(tokenizer),
            defaults=defaults,
        )
        check_given_template(chat_template, registration.template_file)
        return self._import(Path(path), model_id, registration, replace=replace)

    def import_found(
        self, found: FoundModel, model_id: str | None = None, *, replace: bool = False
    ) -> ModelManifest:
        """Register a model of another program in place, once its hash is the one that the program knows.

        It gets an id made of its name unless one is given, and the name as an alias where that is free. One
        that is registered already stays as it is. Raises NeighbourError, and what `import_model` raises.
        """
        model_id = found.model_id if model_id is None else model_id
        if found.path is None:
            raise found.unusable()
        if_new = IfNew(found.defaults or None, found.alias)
        registration = Registration(source=found.source)
        self._check(model_id, registration, found.identity(), replace=replace)
        _describe(found.path, None)
        known = found.checked(self._progress)
        return self._import(found.path, model_id, registration, known, if_new, replace=replace)

    def add_alias(self, model_id: str, *aliases: str) -> ModelManifest:
        """Let a model be asked for by other names, too, all or none. Raises ModelNotFound, InvalidAlias."""
        return self._registry.add_alias(model_id, *aliases)

    def remove_alias(self, model_id: str, *aliases: str) -> ModelManifest:
        """Take other names away from a model, all or none. Raises ModelNotFound, InvalidAlias."""
        return self._registry.remove_alias(model_id, *aliases)

    def attach_tokenizer(self, model_id: str, path: Path | str) -> ModelManifest:
        """Let a model use a tokenizer.json.

        Raises ModelNotFound, ModelFileNotFound, TokenizerError for a broken one and for another model's.
        """
        check_arguments(_KINDS, path=path)
        manifest = self._registry.get(model_id)
        describe_gguf(manifest.weights_path, load_tokenizer(path))
        return self._registry.attach_tokenizer(model_id, Path(path))

    def list_models(self) -> list[ModelManifest]:
        """Return the manifests that can be read, by id."""
        return list(self._registry.list())

    def broken_manifests(self) -> list[InvalidManifest]:
        """Return what is wrong with manifests: with those that cannot be read, and with aliases of others."""
        return list(self._registry.broken())

    def inspect(self, model_id: str) -> ModelManifest:
        """Return a model's manifest. Raises ModelNotFound, InvalidManifest."""
        return self._registry.get(model_id)

    def verify(self, model_id: str) -> ModelManifest:
        """Hash a model's files, and build what needs no weights.

        Raises ModelNotFound, ModelFileNotFound, IntegrityMismatch, and what `import_model` raises for a file
        that could not be run.
        """
        manifest = self._registry.verify(model_id, self._progress)
        if manifest.format is ModelFormat.GGUF:
            tokenizer = None if manifest.tokenizer is None else load_tokenizer(manifest.tokenizer)
            describe_gguf(manifest.weights_path, tokenizer)
        return manifest

    def remove(self, model_id: str) -> None:
        """Forget a model; its files stay. Raises InvalidModelId, ModelNotFound, InvalidAlias for an alias."""
        self._registry.remove(model_id)

    def default_config(self, model_id: str) -> GenerationConfig:
        """Return a model's sampling settings: the `[defaults]` of its manifest over the general ones."""
        return self._registry.get(model_id).default_config()

    def _check(
        self,
        model_id: str,
        registration: Registration,
        weights: WeightsIdentity | None = None,
        *,
        replace: bool = False,
    ) -> None:
        self._registry.check(model_id, registration, weights, replace=replace)
        check_architecture(registration.architecture)
        check_given_template(registration.chat_template, registration.template_file)

    def _from_hub(
        self,
        repo: str,
        file: str | None,
        revision: str | None,
        check: Callable[[WeightsIdentity], None] | None = None,
    ) -> PulledModel:
        hub = self._hub if self._hub is not None else Hub()
        return hub.pull(repo, file, revision=revision, progress=self._progress, check=check)

    def _pull_tokenizer(
        self, repo: str | None, file: str | None, model_repo: str, revision: str | None
    ) -> PulledModel:
        """Download a tokenizer from a repository of its own, else from the model's at its revision."""
        source, revision = (model_repo, revision) if repo is None else (repo, None)
        found = self._from_hub(source, file or "tokenizer.json", revision)
        load_tokenizer(found.paths[0])
        return found

    def _import(
        self,
        path: Path,
        model_id: str,
        registration: Registration,
        known_sha256: Mapping[Path, str] | None = None,
        if_new: IfNew | None = None,
        *,
        replace: bool = False,
    ) -> ModelManifest:
        return self._registry.import_local(
            path,
            model_id,
            registration,
            known_sha256=known_sha256,
            if_new=if_new or IfNew(),
            describe=_describe,
            progress=self._progress,
            replace=replace,
        )


def _said(
    kind: ModelKind | None,
    architecture: str | None,
    context_length: int | None,
    chat_template: str | None,
) -> dict[str, object]:
    """Return what may be said of a model that is imported or pulled, by name."""
    return {
        "kind": kind,
        "architecture": architecture,
        "context_length": context_length,
        "chat_template": chat_template,
    }


def _describe(path: Path, tokenizer: Path | None) -> ModelFacts:
    """Read a file's facts, and check that a tokenizer.json fits it."""
    return describe_gguf(path, None if tokenizer is None else load_tokenizer(tokenizer))
