"""Models of Ollama: manifests by name, and blobs by their sha256, as `ollama pull` and `create` leave them.

MODELS/manifests/HOST/NAMESPACE/MODEL/TAG is JSON, or in MODELS/manifests-v2 a link to a blob that is; its
layers are MODELS/blobs/sha256-HEX.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rase_core.errors import InvalidGenerationConfig, ModelFileNotFound, NeighbourError
from rase_core.json_text import NotJson, parse_json
from rase_core.model_file import open_file, regular_file
from rase_core.neighbours.found_model import FoundModel
from rase_core.sampling import GenerationConfig
from rase_core.sampling.config import MAX_COUNT

PARAMETERS: Mapping[str, str] = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "seed": "seed",
    "stop": "stop",
    "repeat_penalty": "repetition_penalty",
    "repeat_last_n": "penalty_last_n",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Ollama's parameters -> the field of GenerationConfig that means the same."""

UNBOUNDED = (-1, -2)
"""Values of num_predict: until the model ends; until the context is full."""

_FOLDERS = ("manifests-v2", "manifests")
_SYSTEM_FOLDER = Path("/usr/share/ollama/.ollama/models")
_HOST, _NAMESPACE = "registry.ollama.ai", "library"
_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_KIND = "application/vnd.ollama.image."
_MOST_BYTES = 4 << 20
_REFUSED = {
    "adapter": "has an adapter (LoRA), which rase does not apply",
    "projector": "has a projector for images, which rase cannot use",
    "tensor": "has weights in safetensors, not GGUF",
}
_LEFT = {
    "template": "its template is in Ollama's own language; that of the GGUF counts",
    "system": "its system message is left out; send one with the request",
    "messages": "its messages are left out; send them with the request",
}


def ollama_models(folder: Path | None = None) -> list[FoundModel]:
    """List the models under a folder; None for OLLAMA_MODELS, else those of the user and of the service.

    A folder that cannot be read is told with its problem, as a model is that cannot be used.
    """
    places = [folder] if folder is not None else _folders()
    found: dict[str, FoundModel] = {}
    for model in (model for place in places for model in _models(place)):
        found.setdefault(model.name, model)
    return list(found.values())


def _models(folder: Path) -> list[FoundModel]:
    """Return the models under a folder, or what is wrong with it; none where it is not there."""
    try:
        os.scandir(folder).close()
        manifests = list(_manifests(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [FoundModel(name=str(folder), problem=error.strerror or str(error))]
    return [_model(name, manifest, folder) for name, manifest in manifests]


def _folders() -> list[Path]:
    named = os.environ.get("OLLAMA_MODELS")
    return [Path(named)] if named else [Path.home() / ".ollama" / "models", _SYSTEM_FOLDER]


def _manifests(folder: Path) -> Iterator[tuple[str, Path]]:
    for manifests in (folder / name for name in _FOLDERS):
        for path in sorted(manifests.glob("*/*/*/*")):
            if not path.is_dir() and not path.name.startswith("."):
                yield _name(*path.relative_to(manifests).parts), path


def _name(host: str, namespace: str, model: str, tag: str) -> str:
    """Return a name as Ollama shows it, without host and namespace where they are its own."""
    owner = [] if (host, namespace) == (_HOST, _NAMESPACE) else [namespace]
    return "/".join([*([] if host == _HOST else [host]), *owner, f"{model}:{tag}"])


def _model(name: str, manifest: Path, folder: Path) -> FoundModel:
    try:
        layers = _layers(manifest)
        path, sha256 = _weights(layers, folder, manifest)
        given = _parameters(layers, folder, manifest)
        size = path.stat().st_size
    except NeighbourError as error:
        return FoundModel(name=name, problem=error.message)
    except (ModelFileNotFound, OSError) as error:
        return FoundModel(name=name, problem=str(error))
    defaults, left = _defaults(given)
    notes = (*(note for kind, note in _LEFT.items() if kind in layers), *left)
    return FoundModel(name=name, path=path, size=size, sha256=sha256, defaults=defaults, notes=notes)


def _layers(manifest: Path) -> dict[str, list[str]]:
    """Return the digests of a manifest's layers by kind. Raises NeighbourError."""
    layers = _object(manifest).get("layers")
    if not isinstance(layers, list):
        raise NeighbourError(f"{manifest}: has no list of layers")
    kinds: dict[str, list[str]] = {}
    for layer in layers:
        kind, digest = (
            layer.get(key) if isinstance(layer, dict) else None for key in ("mediaType", "digest")
        )
        if not isinstance(kind, str) or not isinstance(digest, str):
            raise NeighbourError(f"{manifest}: has a layer without mediaType and digest")
        kinds.setdefault(kind.removeprefix(_KIND).split(";")[0], []).append(digest)
    return kinds


def _weights(layers: Mapping[str, list[str]], folder: Path, manifest: Path) -> tuple[Path, str]:
    for kind, reason in _REFUSED.items():
        if kind in layers:
            raise NeighbourError(reason)
    digests = layers.get("model", [])
    if len(digests) != 1:
        raise NeighbourError(f"{manifest}: has {len(digests)} layers of weights, expected 1")
    return _blob(digests[0], folder, manifest)


def _blob(digest: str, folder: Path, manifest: Path) -> tuple[Path, str]:
    """Return a blob's path and sha256. Raises NeighbourError for a digest that is none, ModelFileNotFound."""
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise NeighbourError(f"{manifest}: has the digest {digest[:80]!r}, expected sha256: and 64 digits")
    sha256 = match[1].lower()
    return regular_file(folder / "blobs" / f"sha256-{sha256}"), sha256


def _parameters(layers: Mapping[str, list[str]], folder: Path, manifest: Path) -> dict[str, object]:
    given: dict[str, object] = {}
    for digest in layers.get("params", ()):
        given |= _object(_blob(digest, folder, manifest)[0])
    return given


def _defaults(given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return the parameters that mean something here by their names here, and notes on the others."""
    defaults: dict[str, object] = {}
    left: list[str] = []
    for name, value in given.items():
        own = {PARAMETERS[name]: _own_value(name, value)} if name in PARAMETERS else {}
        if own and _is_valid(own):
            defaults |= own
        else:
            left.append(f"its parameter {name} {json.dumps(value)[:80]} is left out")
    return defaults, left


def _is_valid(defaults: Mapping[str, object]) -> bool:
    try:
        GenerationConfig.from_mapping(defaults)
    except InvalidGenerationConfig:
        return False
    return True


def _own_value(name: str, value: object) -> object:
    if name == "num_predict" and value in UNBOUNDED:
        return MAX_COUNT
    return [value] if name == "stop" and isinstance(value, str) else value


def _object(path: Path) -> dict[str, object]:
    """Read a JSON object. Raises NeighbourError, ModelFileNotFound."""
    with open_file(path) as file:
        content = file.read(_MOST_BYTES + 1)
    try:
        value = parse_json(content) if len(content) <= _MOST_BYTES else None
    except NotJson as error:
        raise NeighbourError(f"{path}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise NeighbourError(f"{path}: is no JSON object of at most {_MOST_BYTES} bytes")
    return value
