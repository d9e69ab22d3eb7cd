"""Models in the cache of huggingface_hub, which many programs share: files of repositories at commits."""

from collections.abc import Iterator
from pathlib import Path

from rase_core.errors import ModelFileNotFound
from rase_core.hub_cache import Snapshot, blob_sha256, cached_repos, hub_constants, snapshots
from rase_core.manifest import ModelSource
from rase_core.neighbours.found_model import FoundModel
from rase_core.neighbours.gguf_files import first_parts, shown_name
from rase_core.weights import weights_files

_BRANCH = "main"


def hf_cache_models(folder: Path | None = None) -> list[FoundModel]:
    """List the GGUF models in a cache; None for that of the environment (HF_HUB_CACHE, HF_HOME).

    Of a file at several commits that of the main branch counts, else that of the commit that a file was added
    to last. A file that cannot be used, such as a link that leads nowhere, is told with its problem, and so
    is a folder that cannot be read.
    """
    cache = Path(hub_constants().HF_HUB_CACHE) if folder is None else folder
    try:
        repos = cached_repos(cache)
    except OSError as error:
        return [_unreadable(str(cache), error)]
    return [model for repo in repos for model in _of_repo(cache, repo)]


def _of_repo(cache: Path, repo: str) -> list[FoundModel]:
    try:
        commits = sorted(snapshots(cache, repo), key=_rank, reverse=True)
    except OSError as error:
        return [_unreadable(repo, error)]
    found: dict[str, FoundModel] = {}
    for model in (model for snapshot in commits for model in _of_snapshot(snapshot)):
        if model.name not in found or found[model.name].problem is not None:
            found[model.name] = model
    return list(found.values())


def _rank(snapshot: Snapshot) -> tuple[bool, float]:
    return _BRANCH in snapshot.refs, snapshot.folder.stat().st_mtime


def _of_snapshot(snapshot: Snapshot) -> Iterator[FoundModel]:
    errors: list[OSError] = []
    names = snapshot.names(errors.append)
    yield from (_model(snapshot, name) for name in first_parts(names))
    yield from (_unreadable(snapshot.repo, error) for error in errors)


def _model(snapshot: Snapshot, name: str) -> FoundModel:
    shown = f"{snapshot.repo}/{shown_name(name)}"
    try:
        files = weights_files(snapshot.folder / name)
        size = sum(file.stat().st_size for file in files)
        sha256 = blob_sha256(files[0]) if len(files) == 1 else None
    except (ModelFileNotFound, OSError) as error:
        return FoundModel(name=shown, problem=str(error))
    source = ModelSource(snapshot.repo, name, snapshot.commit)
    return FoundModel(name=shown, path=files[0], size=size, sha256=sha256, source=source)


def _unreadable(name: str, error: OSError) -> FoundModel:
    return FoundModel(name=name, problem=f"{error.filename}: {error.strerror}")
