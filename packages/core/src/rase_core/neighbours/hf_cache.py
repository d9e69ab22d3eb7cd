"""Models in the cache of huggingface_hub, which many programs share: files of repositories at commits."""

from pathlib import Path
from typing import TYPE_CHECKING

from rase_core.errors import ModelFileNotFound
from rase_core.manifest import ModelSource
from rase_core.neighbours.found_model import FoundModel
from rase_core.neighbours.gguf_files import first_parts, shown_name
from rase_core.weights import weights_files

if TYPE_CHECKING:
    from huggingface_hub import CachedRepoInfo, CachedRevisionInfo

_HEX_DIGITS = 64
_BRANCH = "main"


def hf_cache_models(folder: Path | None = None) -> list[FoundModel]:
    """List the GGUF models in a cache; None for that of the environment (HF_HUB_CACHE, HF_HOME).

    Of a file at several commits that of the main branch counts, else the newest. What cannot be read of the
    cache is told as a model with a problem, named after its folder.
    """
    from huggingface_hub import constants, scan_cache_dir

    cache = Path(constants.HF_HUB_CACHE) if folder is None else folder
    if not cache.is_dir():
        return []
    scan = scan_cache_dir(cache)
    found = [model for repo in scan.repos if repo.repo_type == "model" for model in _of_repo(repo)]
    return [*found, *(FoundModel(name=_place(str(e)), problem=str(e)) for e in scan.warnings)]


def _of_repo(repo: "CachedRepoInfo") -> list[FoundModel]:
    found: dict[str, FoundModel] = {}
    for revision in sorted(repo.revisions, key=_rank, reverse=True):
        names = [file.file_path.relative_to(revision.snapshot_path).as_posix() for file in revision.files]
        for name in first_parts(names):
            found.setdefault(shown_name(name), _model(repo.repo_id, revision, name))
    return list(found.values())


def _rank(revision: "CachedRevisionInfo") -> tuple[bool, float]:
    return _BRANCH in revision.refs, revision.last_modified


def _model(repo: str, revision: "CachedRevisionInfo", name: str) -> FoundModel:
    shown = f"{repo}/{shown_name(name)}"
    try:
        files = weights_files(revision.snapshot_path / name)
        size = sum(file.stat().st_size for file in files)
    except (ModelFileNotFound, OSError) as error:
        return FoundModel(name=shown, problem=str(error))
    source = ModelSource(repo, name, revision.commit_hash)
    return FoundModel(name=shown, path=files[0], size=size, sha256=_digest(files), source=source)


def _digest(files: tuple[Path, ...]) -> str | None:
    """Return the name of a single file's blob where that is its sha256, as it is for large files."""
    blob = files[0].resolve().name
    return blob if len(files) == 1 and len(blob) == _HEX_DIGITS else None


def _place(warning: str) -> str:
    """Return the folder that a warning of the scan is about, else its beginning."""
    return next((word for word in warning.split() if "models--" in word), warning[:80])
