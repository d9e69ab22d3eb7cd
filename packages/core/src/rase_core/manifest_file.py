"""A manifest as a TOML file: reading, and rewriting that keeps what it does not know.

id = "smollm2"                        kind = "generator"     format = "gguf"
weights = "/models/smollm2.gguf"      sha256 = "..."         size = 91730240
tokenizer = "/models/tokenizer.json"  tokenizer_sha256 = "..."
architecture = "llama"                context_length = 8192
from_file = {architecture = "llama"}  # what of these two is what the weights say
chat_template = "chatml"              template_file = "/models/chat.jinja"
aliases = ["chat", "llama3.2:1b"]     # other names that it is asked for by
[[parts]]                             # the further files of split weights: path, sha256, size
[source]                              # of a pulled model: repo, file, revision
[defaults]                            # sampling: fields of GenerationConfig
"""

import tomllib
from collections.abc import Mapping, MutableMapping, Sequence, Set
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rase_core.earlier import Earlier
from rase_core.errors import InvalidAlias, InvalidGenerationConfig, InvalidManifest, TooManyOpenFiles
from rase_core.manifest import FileFacts, ModelFormat, ModelKind, ModelManifest, ModelSource, WeightsFile
from rase_core.manifest_table import ManifestTable
from rase_core.model_file import irregularity
from rase_core.model_id import check_alias
from rase_core.open_files import is_full
from rase_core.registration import Registration
from rase_core.sampling import GenerationConfig
from rase_core.toml_text import parse_toml
from rase_core.weights_identity import WeightsIdentity

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.container import Container
    from tomlkit.items import InlineTable, Table

_MOST_BYTES = 4 << 20
_MOST_CONTEXT = 2**31 - 1
_KNOWN_FILES = 256

_T = TypeVar("_T")


def read_manifest(path: Path) -> ModelManifest:
    """Read a manifest file, named after its id. Raises InvalidManifest, FileNotFoundError when missing.

    It is quick where the file's content was read before, whatever its times say.
    """
    known = _parsed(str(path), _read(path))
    return replace(known, defaults=deepcopy(known.defaults))  # which the caller might change


def read_earlier(path: Path) -> Earlier:
    """Read what a model was registered as, whatever is wrong with the facts of its files.

    Raises InvalidManifest when it is not TOML or holds what nobody could keep, FileNotFoundError when it is
    missing.
    """
    text = _decode(path, _read(path))
    root = ManifestTable(path, text, parse_toml(text, path).unwrap())
    identity = _identity(root.values, _source(root))
    kind = next((kind for kind in ModelKind if kind.value == root.values.get("kind")), None)
    return Earlier(_registration(root, kind), identity)


def read_aliases(path: Path) -> tuple[str, ...]:
    """Read the aliases in a manifest file alone, which is quick; none where it cannot be read or has none.

    Raises FileNotFoundError when it is missing.
    """
    try:
        content = _read(path)
        found = tomllib.loads(content.decode("utf-8-sig")).get("aliases") if b"aliases" in content else None
        return tuple(check_alias(alias) for alias in found) if isinstance(found, list) else ()
    except (InvalidManifest, InvalidAlias, ValueError, RecursionError):
        return ()


def rewrite_manifest(manifest: ModelManifest, path: Path, *, replace: bool = False) -> str:
    """Return the TOML text of a manifest, with the unknown keys and comments of the file at its path, if any.

    Raises InvalidManifest when that is not TOML, unless it is to be replaced.
    """
    try:
        previous = parse_toml(_decode(path, _read(path)), path)
    except FileNotFoundError:
        previous = None
    except InvalidManifest:
        if not replace:
            raise
        previous = None
    return _render(manifest, previous)


def parse_manifest(text: str, path: Path) -> ModelManifest:
    """Return the manifest that a TOML text describes; `path` is for messages. Raises InvalidManifest."""
    root = ManifestTable(path, text, parse_toml(text, path).unwrap())
    model_id = root.string("id")
    if model_id != path.stem:
        raise root.error("id", f"is {model_id!r}, but the file is named {path.name!r}")
    given = _registration(root, ModelKind(root.one_of("kind", list(ModelKind))))
    if given.tokenizer is not None and "tokenizer_sha256" not in root.values:
        raise root.error("tokenizer_sha256", "is missing, but there is a tokenizer")
    manifest = ModelManifest(
        id=model_id,
        kind=given.kind or ModelKind.GENERATOR,
        format=ModelFormat(root.one_of("format", list(ModelFormat))),
        weights=(
            _weights_file(root, "weights"),
            *(_weights_file(part, "path") for part in root.tables("parts")),
        ),
        tokenizer=given.tokenizer,
        tokenizer_sha256=root.optional_sha256("tokenizer_sha256"),
        architecture=given.architecture,
        context_length=given.context_length,
        chat_template=given.chat_template,
        template_file=given.template_file,
        defaults=given.defaults or {},
        source=given.source,
        from_file=given.from_file,
        aliases=_aliases(root),
    )
    return replace(manifest, warnings=tuple(root.warnings()))


def render_manifest(manifest: ModelManifest) -> str:
    """Return the TOML text of a manifest."""
    return _render(manifest, None)


def _render(manifest: ModelManifest, previous: "TOMLDocument | None") -> str:
    """Return the text of `previous` with its values changed, unknown keys and comments kept."""
    import tomlkit

    document = tomlkit.document() if previous is None else previous
    for key, value in _root_values(manifest).items():
        _assign(document, key, value)
    _assign_parts(document, [_file_values(file) for file in manifest.weights[1:]])
    _assign_table(document, "source", _source_values(manifest.source), drop_unknown=manifest.source is None)
    _assign_table(document, "defaults", _plain_table(manifest.defaults), drop_unknown=True)
    return document.as_string()


@lru_cache(_KNOWN_FILES)
def _parsed(path: str, content: bytes) -> ModelManifest:
    place = Path(path)
    return parse_manifest(_decode(place, content), place)


def _read(path: Path) -> bytes:
    try:
        if reason := irregularity(path.stat().st_mode):  # a pipe might never answer
            raise InvalidManifest(path, reason)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise InvalidManifest(path, "is a link to a file that is not there") from None
        raise
    except OSError as error:
        if is_full(error):
            raise TooManyOpenFiles(path) from error
        raise InvalidManifest(path, f"cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise InvalidManifest(path, f"is larger than {_MOST_BYTES} bytes")
    return content


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")  # editors on Windows may begin a file with a BOM
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidManifest(path, "is not UTF-8 text", line=line) from error


def _registration(root: ManifestTable, kind: ModelKind | None) -> Registration:
    return Registration(
        kind=kind,
        architecture=root.optional_string("architecture"),
        context_length=root.optional_integer("context_length", 1, _MOST_CONTEXT),
        chat_template=root.optional_string("chat_template"),
        template_file=root.optional_path("template_file"),
        tokenizer=root.optional_path("tokenizer"),
        defaults=_defaults(root),
        source=_source(root),
        from_file=_file_facts(root),
    )


def _identity(values: Mapping[str, object], source: ModelSource | None) -> WeightsIdentity:
    """Return what the values say of the weights; of what has another type, nothing."""
    first, parts = values.get("weights"), values.get("parts")
    if not isinstance(first, str):
        return WeightsIdentity(source=source)
    further = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    files: list[Mapping[str, object]] = [values, *further]
    return WeightsIdentity(
        paths=(first, *(str(part.get("path")) for part in further)),
        sizes=tuple(_typed(file.get("size"), int) for file in files),
        sha256=tuple(_typed(file.get("sha256"), str) for file in files),
        source=source,
    )


def _typed(value: object, kind: type[_T]) -> _T | None:
    return value if isinstance(value, kind) else None


def _weights_file(table: ManifestTable, path_key: str) -> WeightsFile:
    return WeightsFile(table.path_of(path_key), table.sha256("sha256"), table.integer("size", 0, 2**63 - 1))


def _defaults(root: ManifestTable) -> Mapping[str, object]:
    table = root.table("defaults")
    if table is None:
        return {}
    values = table.items()
    for name, value in values.items():
        try:
            GenerationConfig.from_mapping({name: value})
        except InvalidGenerationConfig as error:
            reason = (
                f"unknown, expected {error.expected}" if error.parameter == "parameter" else error.message
            )
            raise table.error(name, reason) from error
    return values


def _aliases(root: ManifestTable) -> tuple[str, ...]:
    aliases = root.strings("aliases")
    for alias in aliases:
        try:
            check_alias(alias)
        except InvalidAlias as error:
            raise root.error("aliases", error.message) from error
    return aliases


def _source(root: ManifestTable) -> ModelSource | None:
    table = root.table("source")
    if table is None:
        return None
    return ModelSource(table.string("repo"), table.string("file"), table.optional_string("revision"))


def _file_facts(root: ManifestTable) -> FileFacts | None:
    table = root.table("from_file")
    if table is None:
        return None
    length = table.optional_integer("context_length", 1, _MOST_CONTEXT)
    return FileFacts(table.optional_string("architecture"), length)


def _root_values(manifest: ModelManifest) -> dict[str, object]:
    first = manifest.weights[0]
    return {
        "id": manifest.id,
        "kind": manifest.kind.value,
        "format": manifest.format.value,
        "weights": str(first.path),
        "sha256": first.sha256,
        "size": first.size,
        "tokenizer": _text(manifest.tokenizer),
        "tokenizer_sha256": manifest.tokenizer_sha256,
        "architecture": manifest.architecture,
        "context_length": manifest.context_length,
        "from_file": _fact_values(manifest.from_file),
        "chat_template": manifest.chat_template,
        "template_file": _text(manifest.template_file),
        "aliases": list(manifest.aliases) or None,
    }


def _file_values(file: WeightsFile) -> dict[str, object]:
    return {"path": str(file.path), "sha256": file.sha256, "size": file.size}


def _source_values(source: ModelSource | None) -> dict[str, object]:
    return {} if source is None else {"repo": source.repo, "file": source.file, "revision": source.revision}


def _fact_values(facts: FileFacts | None) -> "InlineTable | None":
    """Return a table that is one line, so that what a person adds to the end of the file is not in it."""
    import tomlkit

    if facts is None:
        return None
    values = {"architecture": facts.architecture, "context_length": facts.context_length}
    table = tomlkit.inline_table()
    table.update({key: value for key, value in values.items() if value is not None})
    return table


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _plain_table(values: Mapping[str, object]) -> dict[str, object]:
    return {str(key): _plain(value) for key, value in values.items()}


def _plain(value: object) -> object:
    """Return a value as TOML has it: lists for tuples and sets, text keys."""
    if isinstance(value, Mapping):
        return _plain_table(value)
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value


def _assign(table: "Container | Table", key: str, value: object) -> None:
    """Set a key, or remove it when the value is None; an equal value keeps its comment and its spelling."""
    if value is None:
        table.pop(key, None)
    elif key not in table or _unwrapped(table[key]) != value:
        table[key] = value


def _assign_table(
    document: "TOMLDocument", key: str, values: Mapping[str, object], *, drop_unknown: bool
) -> None:
    import tomlkit

    if not values and drop_unknown:
        document.pop(key, None)
        return
    if not isinstance(document.get(key), Mapping):
        document[key] = tomlkit.table()
    table = document[key]
    for name in set(table) - set(values) if drop_unknown else ():
        table.remove(name)
    for name, value in values.items():
        _assign(table, name, value)


def _assign_parts(document: "TOMLDocument", parts: Sequence[Mapping[str, object]]) -> None:
    """Set the further files one by one, so that the unknown keys and comments in their tables stay."""
    import tomlkit

    if not parts:
        document.pop("parts", None)
        return
    if not _is_tables(document.get("parts")):
        document["parts"] = tomlkit.aot()
    tables = document["parts"]
    del tables[len(parts) :]
    for index, values in enumerate(parts):
        if index == len(tables):
            tables.append(dict(values))
        for key, value in values.items():
            _assign(tables[index], key, value)


def _is_tables(item: object) -> bool:
    return isinstance(item, list) and all(isinstance(entry, MutableMapping) for entry in item)


def _unwrapped(item: object) -> object:
    unwrap = getattr(item, "unwrap", None)
    return unwrap() if unwrap is not None else item
