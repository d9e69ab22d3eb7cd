"""The models that may run: a folder of manifests, one per model."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rase_core.aliases import Aliases
from rase_core.durable import remove_file, remove_leftovers, write_file
from rase_core.earlier import Earlier
from rase_core.errors import (
    InvalidAlias,
    InvalidManifest,
    InvalidModelId,
    ModelExists,
    ModelNotFound,
    StoreError,
)
from rase_core.local_import import LocalImport, hashed_tokenizer
from rase_core.local_weights import LocalWeights, check_hash, check_size
from rase_core.lock import FileLock
from rase_core.manifest import ModelManifest
from rase_core.manifest_file import read_earlier, read_manifest, rewrite_manifest
from rase_core.model_file import regular_file
from rase_core.model_id import check_model_id
from rase_core.progress import Progress
from rase_core.registration import Describe, IfNew, Registration
from rase_core.store_errors import store_errors
from rase_core.weights_identity import WeightsIdentity

_SUFFIX = ".toml"
_LOCK = ".lock"
_AS_IT_IS, _ALIKE = Registration(), IfNew()


class ModelRegistry:
    """The manifests under a store's `manifests` folder. Safe between threads and processes.

    Nothing is made before the first model is registered. Every method raises StoreError, which names the path
    and says what to do, when the store cannot be read or written, or another process writes for more than
    `patience` seconds; the manifests are whole then, too.
    """

    def __init__(self, store: Path, *, patience: float = 30.0) -> None:
        self._patience = patience
        if "\0" in str(store):
            raise StoreError(f"the model store cannot be used: {store!s}: no path has a null byte")
        self.store = Path(os.path.abspath(store))  # noqa: PTH100 - links stay as they were given
        self._manifests = self.store / "manifests"

    def check(
        self,
        model_id: str,
        registration: Registration,
        weights: WeightsIdentity | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Check all that needs no weights, before they are downloaded: also that the store can be written.

        With what is known of the weights, also that the id is no other model's unless that is to be replaced.

        Raises InvalidModelId, ModelExists, what Registration.check raises, StoreError, and InvalidManifest
        for an earlier manifest that cannot be rewritten.
        """
        check_model_id(model_id)
        registration.check()
        with self._writing(model_id):
            self._earlier(model_id, weights, replace=replace)

    def import_local(
        self,
        path: Path,
        model_id: str,
        registration: Registration = _AS_IT_IS,
        *,
        known_sha256: Mapping[Path, str] | None = None,
        if_new: IfNew = _ALIKE,
        describe: Describe | None = None,
        progress: Progress | None = None,
        replace: bool = False,
    ) -> ModelManifest:
        """Register a file in place, with all its parts when it is one of several, and return its manifest.

        A model that is registered again keeps what was set for it, where nothing else is given: it is
        the same by its path, its content, or its name in the repository that it was pulled from. With
        `replace` another file may take the id, whatever its manifest holds, and nothing is kept but aliases
        and unknown keys. `if_new` counts then, and for an id that is new.

        Paths become absolute, symbolic links are kept. `known_sha256` has the hashes of absolute paths that
        need not be hashed again.

        Raises ModelFileNotFound, UnsupportedFormat, ArchitectureMismatch, InvalidParameter, and what `check`
        and `describe` raise, before anything is hashed; ModelExists also afterwards.
        """
        check_model_id(model_id)
        registration.check()
        weights = LocalWeights.at(path, known_sha256 or {})
        local = LocalImport.of(weights, registration, if_new, describe)
        before = local.identity()
        local.completed(self._earlier(model_id, before, replace=replace), before)
        self.check(model_id, registration, before, replace=replace)
        hashed = weights.hashed(progress)
        with self._writing(model_id):
            identity = WeightsIdentity.of(hashed, registration.source)
            earlier = self._earlier(model_id, identity, replace=replace)
            manifest = local.manifest(model_id, earlier, hashed)
            aliases = self._aliases_with(model_id, if_new.alias if earlier is None else None)
            manifest = dataclasses.replace(manifest, aliases=aliases)
            self._write(manifest, replace=replace)
        return manifest

    def attach_tokenizer(self, model_id: str, path: Path) -> ModelManifest:
        """Let a model use this tokenizer.json, in place. Raises ModelNotFound, ModelFileNotFound."""
        model_id = self.get(model_id).id
        tokenizer, sha256 = hashed_tokenizer(path, {})
        with self._writing(model_id):
            manifest = dataclasses.replace(self.get(model_id), tokenizer=tokenizer, tokenizer_sha256=sha256)
            self._write(manifest)
        return manifest

    def add_alias(self, model_id: str, *aliases: str) -> ModelManifest:
        """Let a model be asked for by other names, too, all of them or none.

        Raises ModelNotFound, and InvalidAlias for a name that is an id or another model's alias.
        """
        model_id = self.get(model_id).id
        with self._writing(model_id):
            for alias in aliases:
                self.check_alias(model_id, alias)
            manifest = self.get(model_id)
            names = tuple(dict.fromkeys((*manifest.aliases, *aliases)))
            if names != manifest.aliases:
                manifest = dataclasses.replace(manifest, aliases=names)
                self._write(manifest)
        return manifest

    def remove_alias(self, model_id: str, *aliases: str) -> ModelManifest:
        """Take other names away from a model, all of them or none.

        Raises ModelNotFound, and InvalidAlias for one that it has not.
        """
        model_id = self.get(model_id).id
        with self._writing(model_id):
            manifest = self.get(model_id)
            for alias in aliases:
                if alias not in manifest.aliases:
                    known = ", ".join(manifest.aliases) or "none"
                    raise InvalidAlias(alias, f"is none of {model_id!r}", f"its aliases: {known}")
            kept = tuple(name for name in manifest.aliases if name not in aliases)
            manifest = dataclasses.replace(manifest, aliases=kept)
            self._write(manifest)
        return manifest

    def check_alias(self, model_id: str, alias: str) -> None:
        """Check that a name may be an alias of a model, which it may be already. Raises InvalidAlias."""
        self._aliases().check_free(alias, model_id, (Path(name).stem for name in self._names()))

    def resolve(self, name: str) -> str:
        """Return the id of the model with this id or alias; a name that no model has comes back as it is.

        Raises InvalidAlias for the alias of several, which only a manifest changed by hand can have.
        """
        if not isinstance(name, str) or f"{name}{_SUFFIX}" in self._names():
            return name
        return self._aliases().owner(name) or name

    def get(self, model_id: str) -> ModelManifest:
        """Return the manifest of the model with this id or alias.

        Raises InvalidModelId, ModelNotFound, InvalidManifest, InvalidAlias.
        """
        found = self.resolve(model_id)
        check_model_id(found)
        path = self._path(found)
        if path.name in self._names():  # a file system that ignores case would find other ids, too
            try:
                return read_manifest(path)
            except FileNotFoundError:
                pass  # removed just now
        raise self._unknown(model_id)

    def list(self) -> tuple[ModelManifest, ...]:
        """Return every manifest that can be read, by id; `broken` has the others."""
        return tuple(entry for entry in self._entries() if isinstance(entry, ModelManifest))

    def broken(self) -> tuple[InvalidManifest, ...]:
        """Return what is wrong: manifests that cannot be read, by file name, and aliases that name others.

        Only a change by hand makes such an alias; the models themselves can be used by their ids.
        """
        unreadable = (entry for entry in self._entries() if isinstance(entry, InvalidManifest))
        return (*unreadable, *self._clashes())

    def verify(self, model_id: str, progress: Progress | None = None) -> ModelManifest:
        """Hash a model's files, and return its manifest when it has the same hashes.

        Files without one, such as a template, must be there and can be read.

        Raises ModelNotFound, InvalidManifest, ModelFileNotFound, IntegrityMismatch.
        """
        manifest = self.get(model_id)
        for path in (manifest.tokenizer, manifest.template_file):
            if path is not None:
                regular_file(path)
        for file in manifest.weights:
            size = check_hash(manifest.id, file.path, file.sha256, progress)
            check_size(manifest.id, file, size)
        if manifest.tokenizer and manifest.tokenizer_sha256:
            check_hash(manifest.id, manifest.tokenizer, manifest.tokenizer_sha256, progress)
        return manifest

    def remove(self, model_id: str) -> None:
        """Forget a model, even one whose manifest is broken; its weights stay.

        Raises InvalidModelId, ModelNotFound, InvalidAlias for an alias, and StoreError for a folder.
        """
        owner = self.resolve(model_id)
        if owner != model_id:
            raise InvalidAlias(model_id, f"is an alias of {owner!r}", f"remove {owner!r}, or the alias alone")
        check_model_id(model_id)
        if f"{model_id}{_SUFFIX}" not in self._names():
            raise self._unknown(model_id)
        with self._writing(model_id):
            _check_file(self._path(model_id))
            remove_file(self._path(model_id))

    def _unknown(self, model_id: str) -> ModelNotFound:
        missing = None if os.path.lexists(self.store) else self.store
        return ModelNotFound(model_id, [Path(name).stem for name in self._names()], store=missing)

    def _path(self, model_id: str) -> Path:
        return self._manifests / f"{model_id}{_SUFFIX}"

    def _names(self) -> tuple[str, ...]:
        """Return the names of the manifest files, sorted by id."""
        with store_errors(self._manifests):
            try:
                names = [entry.name for entry in self._manifests.iterdir()]
            except FileNotFoundError:
                return ()
        return tuple(sorted((n for n in names if n.endswith(_SUFFIX) and n[0] != "."), key=lambda n: n[:-5]))

    def _entries(self) -> Iterator[ModelManifest | InvalidManifest]:
        for name in self._names():
            path = self._manifests / name
            try:
                check_model_id(path.stem)
                yield read_manifest(path)
            except InvalidModelId as error:
                yield InvalidManifest(path, f"the file's name is no model id: {error.message}")
            except InvalidManifest as error:
                yield error
            except FileNotFoundError:
                continue  # removed since it was listed

    def _clashes(self) -> Iterator[InvalidManifest]:
        ids = [Path(name).stem for name in self._names()]
        for model_id, reason in self._aliases().clashes(ids):
            yield InvalidManifest(self._path(model_id), reason, key="aliases")

    def _aliases(self) -> Aliases:
        return Aliases.read(self._manifests / name for name in self._names())

    def _earlier(
        self, model_id: str, weights: WeightsIdentity | None, *, replace: bool = False
    ) -> Earlier | None:
        """Return the earlier registration of an id: None where there is none, and where it is to be replaced.

        Raises ModelExists when it is known to be of another model, and InvalidManifest when it cannot be told
        what is in it, so that no hand-made change is lost; StoreError for a folder in its place.
        """
        path = self._path(model_id)
        _check_file(path)
        if replace or path.name not in self._names():
            return None
        try:
            earlier = read_earlier(path)
        except FileNotFoundError:  # removed just now
            return None
        if weights is not None and not weights.may_be(earlier.weights):
            raise ModelExists(model_id, Path(earlier.weights.paths[0]))
        return earlier

    def _aliases_with(self, model_id: str, wanted: str | None) -> tuple[str, ...]:
        """Return a model's aliases, and the one that is wanted where that is free."""
        own = self._aliases().of(model_id)
        if wanted is None or wanted in (model_id, *own):
            return own
        try:
            self.check_alias(model_id, wanted)
        except InvalidAlias:
            return own
        return (*own, wanted)

    def _write(self, manifest: ModelManifest, *, replace: bool = False) -> None:
        path = self._path(manifest.id)
        try:
            content = rewrite_manifest(manifest, path, replace=replace).encode("utf-8")
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{manifest.weights_path}: the path is not valid Unicode", "rename it"
            ) from error
        write_file(path, content)

    @contextmanager
    def _writing(self, model_id: str) -> Iterator[None]:
        """Hold the store's lock, in a clean folder, for an id that is not taken, whatever its case."""
        with store_errors(self._manifests):
            self._manifests.mkdir(parents=True, exist_ok=True)
            with FileLock(self._manifests / _LOCK, self._patience):
                remove_leftovers(self._manifests)
                self._check_name(model_id)
                yield

    def _check_name(self, model_id: str) -> None:
        for name in self._names():
            known = name.removesuffix(_SUFFIX)
            if known != model_id and known.lower() == model_id.lower():
                advice = f"use {known!r} itself to replace that model, or another id"
                raise InvalidModelId(model_id, f"differs from {known!r} in case alone", advice)
        if f"{model_id}{_SUFFIX}" not in self._names() and (holder := self._aliases().holder(model_id)):
            advice = (
                f"use another id, or take the alias away: `rase model alias {holder} {model_id} --remove`"
            )
            raise InvalidModelId(model_id, f"is an alias of {holder!r}", advice)


def _check_file(path: Path) -> None:
    """Raise StoreError for a folder in a manifest's place, which may hold anybody's files."""
    if path.is_dir() and not path.is_symlink():
        raise StoreError(f"{path}: is a folder in the place of a manifest", "move it or delete it yourself")
