"""Models of LM Studio: MODELS/PUBLISHER/REPOSITORY/FILE.gguf, as it downloads and `lms import` links them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from rase_core.errors import ModelFileNotFound
from rase_core.neighbours.found_model import FoundModel
from rase_core.neighbours.gguf_files import first_parts, shown_name
from rase_core.weights import weights_files

_POINTER = ".lmstudio-home-pointer"
_DEPTH = 3
_MOST_BYTES = 1 << 20


def lm_studio_models(folder: Path | None = None) -> list[FoundModel]:
    """List the models under a folder; None for those that LM Studio uses or has used for this user."""
    found: dict[str, FoundModel] = {}
    for place in [folder] if folder is not None else _folders():
        for name in first_parts(_files(place)):
            found.setdefault(shown_name(name), _model(place, name))
    return list(found.values())


def _folders() -> Iterator[Path]:
    """Give the folder that its settings name, and the usual ones of newer and older versions."""
    home = Path.home()
    own = _home(home)
    if (chosen := _chosen(own / "settings.json")) is not None:
        yield chosen
    yield own / "models"
    yield home / ".cache" / "lm-studio" / "models"


def _home(home: Path) -> Path:
    named = _text(home / _POINTER).strip()
    return _absolute(named) or home / ".lmstudio"


def _chosen(settings: Path) -> Path | None:
    try:
        values = json.loads(_text(settings) or "null")
    except (ValueError, RecursionError):
        return None
    folder = values.get("downloadsFolder") if isinstance(values, dict) else None
    return _absolute(folder) if isinstance(folder, str) else None


def _absolute(name: str) -> Path | None:
    """Return an absolute path that a file may have; None for any other text."""
    try:
        is_name = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return None
    return Path(name) if is_name and Path(name).is_absolute() else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _files(folder: Path, depth: int = _DEPTH) -> Iterator[str]:
    """Give the files of a folder and those in it, `depth` deep, by their path within; links are followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if _is_folder(entry):
            within = _files(Path(entry.path), depth - 1) if depth > 1 else ()
            yield from (f"{entry.name}/{name}" for name in within)
        else:
            yield entry.name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _model(folder: Path, name: str) -> FoundModel:
    try:
        files = weights_files(folder / name)
        size = sum(file.stat().st_size for file in files)
    except (ModelFileNotFound, OSError) as error:
        return FoundModel(name=shown_name(name), problem=str(error))
    return FoundModel(name=shown_name(name), path=files[0], size=size)
