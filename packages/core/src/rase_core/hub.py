"""Files from the Hugging Face hub, kept in huggingface_hub's cache.

The environment variables of huggingface_hub apply: HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT,
HF_HUB_OFFLINE.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.download import download_file
from rase_core.errors import HubError
from rase_core.hashing import hash_file
from rase_core.hub_errors import hub_errors
from rase_core.hub_listing import HubListing, RemoteFile, split_quant
from rase_core.lock import FileLock
from rase_core.manifest import ModelSource
from rase_core.progress import Progress, ProgressEvent, ProgressPhase

_TIMEOUT_SECONDS = 30.0
_MOST_PLAIN_BYTES = 50_000_000_000  # the hub serves no larger file over plain HTTP
_FOREVER = 10.0**9


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
    every file's sha256 is checked. With HF_HUB_OFFLINE=1 only the cache is used. `progress` may raise to give
    up.

    Raises HubError saying what is wrong and what to do: no such repository, file (with the files that are
    there), or revision; more than one file; gated; no network; disk full; a wrong hash.
    """
    return Hub().pull(repo, file, revision=revision, progress=progress)


class Hub:
    """A hub and a cache: those of the environment unless others are given."""

    def __init__(self, *, endpoint: str | None = None, cache: Path | None = None) -> None:
        from huggingface_hub import constants

        self._endpoint = endpoint
        self._cache = Path(cache if cache is not None else constants.HF_HUB_CACHE)

    def pull(
        self,
        repo: str,
        file: str | None = None,
        *,
        revision: str | None = None,
        progress: Progress | None = None,
    ) -> PulledModel:
        """Bring a file onto this machine; see the function `pull`."""
        name, quant = split_quant(repo)
        if file is not None and quant is not None:
            raise HubError(f"{repo!r} names a type, and {file!r} a file", "give one of them")
        with hub_errors(name):
            listing = self._listing(name, revision)
            chosen = listing.choose(file, quant)
            paths = tuple(self._fetch(listing, entry, revision, progress) for entry in chosen)
        sha256 = {path: _checked(path, entry, progress) for path, entry in zip(paths, chosen, strict=True)}
        return PulledModel(paths, sha256, ModelSource(name, chosen[0].name, listing.commit))

    def _listing(self, repo: str, revision: str | None) -> HubListing:
        from huggingface_hub import HfApi, constants

        if constants.HF_HUB_OFFLINE:
            return self._cached_listing(repo, revision or "main")
        info = HfApi(endpoint=self._endpoint).model_info(
            repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_SECONDS
        )
        siblings = info.siblings or []
        files = [RemoteFile(f.rfilename, f.size, f.lfs.sha256 if f.lfs else None) for f in siblings]
        return HubListing(repo, info.sha or "", {file.name: file for file in files})

    def _cached_listing(self, repo: str, revision: str) -> HubListing:
        from huggingface_hub import scan_cache_dir

        known = scan_cache_dir(self._cache).repos if self._cache.is_dir() else ()
        for snapshot in (
            s for r in known if r.repo_id == repo and r.repo_type == "model" for s in r.revisions
        ):
            if revision in snapshot.refs or revision == snapshot.commit_hash:
                files = [
                    _cached_file(f.file_path, f.blob_path, snapshot.snapshot_path) for f in snapshot.files
                ]
                return HubListing(repo, snapshot.commit_hash, {file.name: file for file in files})
        raise HubError(f"{repo} is not in {self._cache}, and offline mode is on", "unset HF_HUB_OFFLINE")

    def _fetch(
        self, listing: HubListing, file: RemoteFile, revision: str | None, progress: Progress | None
    ) -> Path:
        if file.path is not None:
            return file.path
        from huggingface_hub import hf_hub_download

        if file.sha256 is not None and file.size is not None and file.size <= _MOST_PLAIN_BYTES:
            self._download(listing, file, file.sha256, file.size, progress)
        path = hf_hub_download(
            listing.repo, file.name, revision=revision, endpoint=self._endpoint, cache_dir=self._cache
        )
        return Path(os.path.abspath(path))  # noqa: PTH100 - the link's name says which file it is

    def _download(
        self, listing: HubListing, file: RemoteFile, sha256: str, size: int, progress: Progress | None
    ) -> None:
        """Put a large file where huggingface_hub keeps it; that itself would start over when interrupted."""
        from huggingface_hub import hf_hub_url

        folder = f"models--{listing.repo.replace('/', '--')}"
        blob = self._cache / folder / "blobs" / sha256
        snapshot = self._cache / folder / "snapshots" / listing.commit / file.name
        lock = self._cache / ".locks" / folder / f"{sha256}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=_FOREVER):
            if blob.exists() or snapshot.exists():
                return
            url = hf_hub_url(listing.repo, file.name, revision=listing.commit, endpoint=self._endpoint)
            partial = blob.with_name(f"{sha256}.incomplete")
            download_file(url, partial, size, lambda done: _tell(progress, file.name, done, size))
            target = blob if self._has_links() else snapshot
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(target)

    def _has_links(self) -> bool:
        from huggingface_hub.file_download import are_symlinks_supported

        return are_symlinks_supported(self._cache)


def _cached_file(path: Path, blob: Path, snapshot: Path) -> RemoteFile:
    is_sha256 = len(blob.name) == 64
    return RemoteFile(
        path.relative_to(snapshot).as_posix(), path.stat().st_size, blob.name if is_sha256 else None, path
    )


def _checked(path: Path, file: RemoteFile, progress: Progress | None) -> str:
    """Return a file's sha256; a file with another one than the hub names is removed, for a next attempt."""
    sha256, _ = hash_file(path, progress)
    if file.sha256 is not None and sha256 != file.sha256:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        message = f"{file.name} has sha256 {sha256}, the hub says {file.sha256}"
        raise HubError(f"{message}; the damaged file was removed", "pull it again")
    return sha256


def _tell(progress: Progress | None, name: str, done: int, total: int) -> None:
    if progress is not None:
        progress(ProgressEvent(ProgressPhase.DOWNLOAD, name, done, total))
