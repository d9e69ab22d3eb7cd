"""Weights on the disk, before and after they are hashed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.errors import IntegrityMismatch
from rase_core.hashing import hash_file
from rase_core.manifest import ModelFormat, ModelSource, WeightsFile
from rase_core.model_file import open_file, regular_file
from rase_core.progress import Progress
from rase_core.weights import weights_files, weights_format
from rase_core.weights_identity import WeightsIdentity


@dataclass(frozen=True, slots=True)
class LocalWeights:
    """The files of a model, all parts in order, by absolute paths; `sha256` has the hashes that are known."""

    files: tuple[Path, ...]
    format: ModelFormat
    sha256: Mapping[Path, str]

    @classmethod
    def at(cls, path: Path, sha256: Mapping[Path, str]) -> "LocalWeights":
        """Find the files that belong to one of them. Raises ModelFileNotFound, UnsupportedFormat."""
        files = weights_files(path)
        return cls(files, weights_format(files[0]), sha256)

    def identity(self, source: ModelSource | None) -> WeightsIdentity:
        """Return what is known of the weights now."""
        sizes = tuple(_size(path) for path in self.files)
        sha256 = tuple(self.sha256.get(path) for path in self.files)
        return WeightsIdentity(tuple(map(str, self.files)), sizes, sha256, source)

    def hashed(self, progress: Progress | None) -> tuple[WeightsFile, ...]:
        """Return the files with their hashes, of which those that are known are not taken again."""
        return tuple(self._hashed(path, progress) for path in self.files)

    def _hashed(self, path: Path, progress: Progress | None) -> WeightsFile:
        if path in self.sha256:
            return WeightsFile(path, self.sha256[path], _size(path))
        sha256, size = hash_file(path, progress)
        return WeightsFile(path, sha256, size)


def check_size(model_id: str, file: WeightsFile, nbytes: int) -> None:
    """Raise IntegrityMismatch for a file that has another size than its manifest says."""
    if nbytes != file.size:
        raise IntegrityMismatch(model_id, file.path, str(file.size), str(nbytes), fact="size")


def check_hash(model_id: str, path: Path, expected: str, progress: Progress | None = None) -> int:
    """Return a file's size once its sha256 is as expected. Raises IntegrityMismatch, ModelFileNotFound."""
    actual, size = hash_file(regular_file(path), progress)
    if actual != expected:
        raise IntegrityMismatch(model_id, path, expected, actual)
    return size


def _size(path: Path) -> int:
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size
