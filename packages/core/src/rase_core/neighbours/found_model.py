"""A model that another program keeps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rase_core.enumeration import enumerated, printable
from rase_core.errors import NeighbourError
from rase_core.hashing import hash_file
from rase_core.manifest import ModelSource
from rase_core.model_id import check_model_id
from rase_core.progress import Progress
from rase_core.weights import weights_files
from rase_core.weights_identity import WeightsIdentity

_LATEST = ":latest"
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """What a program calls a model, and what is known of it.

    Attributes:
        path: the weights, the first part of split ones; None where there is a `problem`.
        size: of all parts, in bytes.
        sha256: the hash by which the program knows a single file; None when it knows none.
        defaults: fields of GenerationConfig by name.
        notes: what of the model is not taken over.
        problem: why it cannot be used; None when it can.
    """

    name: str
    path: Path | None = None
    size: int = 0
    sha256: str | None = None
    source: ModelSource | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def model_id(self) -> str:
        """An id made of the name. Raises InvalidModelId when nothing of it can be in one."""
        name = re.sub(r"\.gguf$", "", self.name.removesuffix(_LATEST), flags=re.IGNORECASE)
        own = name.rsplit("/", 1)[-1] if self.name.lower().endswith(".gguf") else name
        return check_model_id(re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-.")[:_LONGEST_ID])

    @property
    def alias(self) -> str | None:
        """The name, which may be another name of the model in the store; None for one that is a path."""
        return None if self.name.lower().endswith(".gguf") else self.name

    def unusable(self) -> NeighbourError:
        """Return the error that says why it cannot be used."""
        return NeighbourError(f"{printable(self.name)}: {self.problem}")

    def identity(self) -> WeightsIdentity:
        """Return what is known of the weights before they are hashed. Raises ModelFileNotFound."""
        files = () if self.path is None else weights_files(self.path)
        sizes = (self.size,) if len(files) == 1 else (None,) * len(files)
        sha256 = (self.sha256,) if len(files) == 1 else (None,) * len(files)
        return WeightsIdentity(tuple(map(str, files)), sizes, sha256, self.source)

    def checked(self, progress: Progress | None = None) -> Mapping[Path, str]:
        """Hash the weights: sha256 by path. Raises NeighbourError for a file that is kept as another."""
        if self.path is None:
            raise self.unusable()
        digests = {path: hash_file(path, progress)[0] for path in weights_files(self.path)}
        for path, digest in digests.items():
            if self.sha256 not in (None, digest):
                raise NeighbourError(
                    f"{printable(self.name)}: {path} has sha256 {digest}, but is kept as {self.sha256}",
                    "the file is damaged: download it again with the program that keeps it",
                )
        return digests


def chosen(models: Sequence[FoundModel], program: str, name: str) -> FoundModel:
    """Return the model of this name, else the only one of which it is the beginning or the end."""
    found = [model for model in models if model.name in (name, name + _LATEST)]
    found = found or [model for model in models if _is_part(name, model.name)]
    if len(found) == 1:
        return found[0]
    shown = enumerated(model.name for model in found or models)
    if found:
        raise NeighbourError(f"{program} has more than one model {name!r}", f"name one of these: {shown}")
    raise NeighbourError(f"{program} has no model {name!r}", f"it has: {shown}")


def _is_part(part: str, name: str) -> bool:
    part, name = part.lower(), name.lower()
    whole = f"/{name.removesuffix('.gguf')}/".replace(":", "/:")
    return bool(part) and (f"/{part.removesuffix('.gguf')}/" in whole)
