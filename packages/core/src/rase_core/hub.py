"""Files from the Hugging Face hub, kept in huggingface_hub's cache.

The environment variables of huggingface_hub apply: HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT,
HF_HUB_OFFLINE.
"""

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rase_core.download import Pause, download_file
from rase_core.durable import write_file
from rase_core.errors import HubError
from rase_core.hashing import hash_file
from rase_core.hub_cache import blob_sha256, hub_constants, repo_folder, snapshots
from rase_core.hub_errors import hub_errors
from rase_core.hub_listing import HubListing, RemoteFile, split_quant
from rase_core.lock import FileLock
from rase_core.manifest import ModelSource
from rase_core.progress import Progress, ProgressEvent, ProgressPhase
from rase_core.weights_identity import WeightsIdentity

_TIMEOUT_SECONDS = 30.0
_MOST_PLAIN_BYTES = 50_000_000_000  # the hub serves no larger file over plain HTTP
_POLL_SECONDS = 0.1
_DEFAULT_BRANCH = "main"

_T = TypeVar("_T")
_Work = Generator[ProgressEvent, None, _T]
_Found = list[tuple[RemoteFile, Path]]


@dataclass(frozen=True, slots=True)
class PulledModel:
    """Files that are on this machine now: absolute paths in order, their sha256, and where they came from."""

    paths: tuple[Path, ...]
    sha256: Mapping[Path, str]
    source: ModelSource


def pull(
    repo: str,
    file: str | None = None,
    *,
    revision: str | None = None,
    progress: Progress | None = None,
) -> PulledModel:
    """Bring a file of a hub repository onto this machine, with all parts when it is one of a split model.

    The file is `file`, or the repository's only GGUF of the type in `repo` (`owner/name:Q4_K_M`), or its only
    GGUF. What is in the cache is not downloaded again, an interrupted download goes on where it ended, and
    every file's sha256 is checked. With HF_HUB_OFFLINE=1 only the cache is used. `progress` is asked all the
    time, also while another process downloads the file, and may raise to give up.

    Raises HubError saying what is wrong and what to do: no such repository, file (with the files that are
    there), or revision; more than one file; gated; no network; disk full; a wrong hash.
    """
    return Hub().pull(repo, file, revision=revision, progress=progress)


class Hub:
    """A hub and a cache: those of the environment unless others are given.

    Args:
        endpoint: the address of the hub.
        cache: the folder that keeps what was downloaded.
        offline: whether only the cache is used.
        pause: waits so many seconds before something is tried again.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        cache: Path | None = None,
        offline: bool | None = None,
        pause: Pause = time.sleep,
    ) -> None:
        constants = hub_constants()
        self._endpoint, self._pause = endpoint, pause
        self._cache = Path(cache if cache is not None else constants.HF_HUB_CACHE)
        self._offline = constants.HF_HUB_OFFLINE if offline is None else offline

    def pull(
        self,
        repo: str,
        file: str | None = None,
        *,
        revision: str | None = None,
        progress: Progress | None = None,
        check: Callable[[WeightsIdentity], None] | None = None,
    ) -> PulledModel:
        """Bring a file onto this machine; see the function `pull`.

        `check` is told before any download what the hub knows of the files, and may raise.
        """
        name, quant = split_quant(repo)
        if file is not None and quant is not None:
            raise HubError(f"{repo!r} names a type, and {file!r} a file", "give one of them")
        with hub_errors(repo):
            listing = self._listing(name, revision)
            chosen = listing.choose(file, quant)
        if check is not None:
            check(_identity(listing, chosen))
        with closing(self._bring(listing, chosen, revision)) as work:
            found = _followed(work, progress)
        sha256 = {path: _checked(path, entry, progress) for entry, path in found}
        return PulledModel(tuple(sha256), sha256, ModelSource(name, found[0][0].name, listing.commit))

    def _bring(
        self, listing: HubListing, chosen: Sequence[RemoteFile], revision: str | None
    ) -> _Work[_Found]:
        """Bring files here; what a caller does between the events cannot be taken for the hub's fault."""
        with hub_errors(listing.repo):
            found: list[tuple[RemoteFile, Path]] = []
            for entry in chosen:
                path = yield from self._fetch(listing, entry)
                found.append((entry, path))
            if not listing.is_cached:
                self._remember(listing, revision or _DEFAULT_BRANCH)
            return found

    def _listing(self, repo: str, revision: str | None) -> HubListing:
        from huggingface_hub import HfApi

        if self._offline:
            return self._cached_listing(repo, revision or _DEFAULT_BRANCH)
        info = HfApi(endpoint=self._endpoint).model_info(
            repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_SECONDS
        )
        if not info.sha:
            raise HubError(f"the hub does not say at which commit {repo} is", "try again later")
        siblings = info.siblings or []
        files = [RemoteFile(f.rfilename, f.size, f.lfs.sha256 if f.lfs else None) for f in siblings]
        return HubListing(repo, info.sha, {file.name: file for file in files})

    def _cached_listing(self, repo: str, revision: str) -> HubListing:
        for snapshot in snapshots(self._cache, repo):
            if revision in snapshot.refs or revision == snapshot.commit:
                files = [_cached_file(snapshot.folder, name) for name in snapshot.names()]
                kept = {file.name: file for file in files if file is not None}
                return HubListing(repo, snapshot.commit, kept, is_cached=True)
        raise HubError(f"{repo} is not in {self._cache}, and offline mode is on", "unset HF_HUB_OFFLINE")

    def _fetch(self, listing: HubListing, file: RemoteFile) -> _Work[Path]:
        if file.path is not None:
            return file.path
        from huggingface_hub import hf_hub_download

        if file.sha256 is not None and file.size is not None and file.size <= _MOST_PLAIN_BYTES:
            yield from self._download(listing, file, file.sha256, file.size)
        # By commit, so that a branch that moves meanwhile does not mix the files of two.
        path = hf_hub_download(
            listing.repo, file.name, revision=listing.commit, endpoint=self._endpoint, cache_dir=self._cache
        )
        return Path(os.path.abspath(path))  # noqa: PTH100 - the link's name says which file it is

    def _download(self, listing: HubListing, file: RemoteFile, sha256: str, size: int) -> _Work[None]:
        """Put a large file where huggingface_hub keeps it; that itself would start over when interrupted."""
        folder = repo_folder(self._cache, listing.repo)
        blob, snapshot = folder / "blobs" / sha256, folder / "snapshots" / listing.commit / file.name
        partial = blob.with_name(f"{sha256}.incomplete")
        lock = FileLock(self._lock_path(folder, sha256))
        while not lock.acquire():
            yield _downloaded(file, partial.stat().st_size if partial.exists() else 0, size)
            self._pause(_POLL_SECONDS)
        try:
            if not (blob.exists() or snapshot.exists()):
                for done in download_file(self._url(listing, file), partial, size, self._pause):
                    yield _downloaded(file, done, size)
                target = blob if self._has_links() else snapshot
                target.parent.mkdir(parents=True, exist_ok=True)
                partial.replace(target)
        finally:
            lock.release()

    def _remember(self, listing: HubListing, revision: str) -> None:
        """Note at which commit a branch or tag is, for offline mode."""
        if revision != listing.commit:
            note = repo_folder(self._cache, listing.repo) / "refs" / revision
            note.parent.mkdir(parents=True, exist_ok=True)
            write_file(note, listing.commit.encode())

    def _lock_path(self, folder: Path, sha256: str) -> Path:
        path = self._cache / ".locks" / folder.name / f"{sha256}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _url(self, listing: HubListing, file: RemoteFile) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(listing.repo, file.name, revision=listing.commit, endpoint=self._endpoint)

    def _has_links(self) -> bool:
        from huggingface_hub.file_download import are_symlinks_supported

        return are_symlinks_supported(self._cache)


def _identity(listing: HubListing, chosen: Sequence[RemoteFile]) -> WeightsIdentity:
    """Return what is known of files that are not here, or not all of them."""
    return WeightsIdentity(
        tuple("" if file.path is None else str(file.path) for file in chosen),
        tuple(file.size for file in chosen),
        tuple(file.sha256 for file in chosen),
        ModelSource(listing.repo, chosen[0].name, listing.commit),
    )


def _cached_file(folder: Path, name: str) -> RemoteFile | None:
    """Return a file of the cache; None for a link that leads nowhere."""
    path = folder / name
    return RemoteFile(name, path.stat().st_size, blob_sha256(path), path) if path.exists() else None


def _checked(path: Path, file: RemoteFile, progress: Progress | None) -> str:
    """Return a file's sha256; a file with another one than the hub names is removed, for a next attempt."""
    sha256, _ = hash_file(path, progress)
    if file.sha256 is not None and sha256 != file.sha256:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        message = f"{file.name} has sha256 {sha256}, the hub says {file.sha256}"
        raise HubError(f"{message}; the damaged file was removed", "pull it again")
    return sha256


def _downloaded(file: RemoteFile, done: int, size: int) -> ProgressEvent:
    return ProgressEvent(ProgressPhase.DOWNLOAD, file.name, done, size)


def _followed(work: _Work[_T], progress: Progress | None) -> _T:
    """Do some work and tell of it; what `progress` raises is raised here as it is, and ends the work."""
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if progress is not None:
            progress(event)
