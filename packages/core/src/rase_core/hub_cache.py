"""The cache of huggingface_hub, which many programs share: files of repositories at commits.

CACHE/models--OWNER--NAME/refs/BRANCH holds a commit's hash, and CACHE/models--OWNER--NAME/snapshots/COMMIT
the files of that commit, most of them links to blobs. huggingface_hub's own scan gives a whole repository up
for one link that leads nowhere.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from rase_core.errors import HubError

_PREFIX = "models--"
_SHA256_DIGITS = 64
_VARIABLES = ("HF_", "HUGGINGFACE_", "XDG_")

OnError = Callable[[OSError], object]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A repository at a commit, its files in a folder; `refs` are the branches and tags that are there."""

    repo: str
    commit: str
    folder: Path
    refs: frozenset[str]

    def names(self, on_error: OnError | None = None) -> list[str]:
        """Return the files, also links that lead nowhere; `on_error` hears of folders that cannot be read."""
        found = os.walk(self.folder, onerror=on_error)
        paths = (Path(folder, name) for folder, _, names in found for name in names)
        return sorted(path.relative_to(self.folder).as_posix() for path in paths)


@cache
def hub_constants() -> ModuleType:
    """Return the settings of huggingface_hub, read once from the environment, where empty means unset.

    To be called before anything of it is imported: an empty HF_HOME would be the current folder, and a file
    `token` there the user's. Raises HubError for one that it cannot read.
    """
    empty = [name for name, value in os.environ.items() if not value and name.startswith(_VARIABLES)]
    for name in empty:
        del os.environ[name]
    try:
        from huggingface_hub import constants
    except ValueError as error:
        what = f"a variable of huggingface_hub cannot be read: {error}"
        raise HubError(what, "correct or unset those that begin with HF_") from error
    finally:
        os.environ.update(dict.fromkeys(empty, ""))
    return constants


def repo_folder(cache: Path, repo: str) -> Path:
    """Return the folder of a repository of models."""
    return cache / f"{_PREFIX}{repo.replace('/', '--')}"


def cached_repos(cache: Path) -> list[str]:
    """Return the repositories of models in a cache, if it is there. Raises OSError when it cannot be read."""
    found = [entry.name for entry in cache.iterdir()] if cache.exists() else []
    names = (name.removeprefix(_PREFIX) for name in found if name.startswith(_PREFIX))
    return sorted(name.replace("--", "/") for name in names)


def snapshots(cache: Path, repo: str) -> list[Snapshot]:
    """Return a repository's commits that are in a cache. Raises OSError when its folder cannot be read."""
    folder = repo_folder(cache, repo)
    places = folder / "snapshots"
    refs = list(_refs(folder / "refs"))
    commits = [place for place in places.iterdir() if place.is_dir()] if places.is_dir() else []
    return [
        Snapshot(repo, place.name, place, frozenset(ref for ref, commit in refs if commit == place.name))
        for place in sorted(commits)
    ]


def blob_sha256(file: Path) -> str | None:
    """Return the name of the blob that a file is a link to, where it is a sha256, as it is of large files."""
    name = file.readlink().name if file.is_symlink() else ""
    return name if len(name) == _SHA256_DIGITS else None


def _refs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield branches and tags, and their commits; one that cannot be read names no commit."""
    for path in folder.rglob("*"):
        with suppress(OSError, UnicodeDecodeError):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.read_text("ascii").strip()
