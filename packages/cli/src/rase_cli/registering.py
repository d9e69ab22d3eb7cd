"""What has been registered, told; and models of other programs on the way there."""

from typing import TYPE_CHECKING

from rase_core.errors import StoreError

from rase_cli.output import emit_json, emit_table, human_size, note, warn
from rase_cli.records import Record, found_record, model_record
from rase_cli.settings import Settings, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    from rase_core.manifest import ModelManifest
    from rase_models.engine import Engine

SETTINGS = (
    "kind",
    "architecture",
    "context_length",
    "chat_template",
    "template_file",
    "tokenizer",
    "defaults",
    "aliases",
)
"""The fields of a manifest that may be set."""


def import_found(
    settings: Settings,
    program: str,
    name: str | None,
    model_id: str | None,
    *,
    replace: bool,
    as_json: bool,
) -> None:
    """Register what a program has under a name, and say what of it is left out; without a name, list it all.

    What is registered already stays as it is.

    Raises NeighbourError, and what Engine.import_found raises.
    """
    from rase_core.enumeration import printable
    from rase_core.neighbours import find_model

    if name is None:
        return _list_found(program, as_json=as_json)
    found = find_model(program, name)
    for left in found.notes:
        warn(f"{printable(found.name)}: {left}")
    with open_engine(settings) as engine:
        before = registered(engine, model_id or found.model_id)
        manifest = engine.import_found(found, model_id, replace=replace)
    if found.defaults and dict(found.defaults) != dict(manifest.defaults):
        warn(f"{printable(found.name)}: its parameters are left out: {manifest.id} keeps those it has")
    return told(before, manifest, as_json=as_json)


def registered(engine: "Engine", model_id: str) -> "ModelManifest | None":
    """Return what an id stands for before it is registered; None for nothing that can be read."""
    try:
        manifest = engine.inspect(model_id)
    except StoreError:
        return None
    return manifest if manifest.id == model_id else None


def told(before: "ModelManifest | None", now: "ModelManifest", *, as_json: bool) -> None:
    """Tell what was registered, and what became of the model that had the id before."""
    done(f"registered {summary(now)}", model_record(now), as_json=as_json)
    if before is None:
        return
    if before.weights_path != now.weights_path:
        note(f"in place of {before.weights_path}", None)
    elif before.weights != now.weights:
        note("the file has changed since it was registered", None)
    had, has = _settings(before), _settings(now)
    kept = [name for name in had if has.get(name) == had[name]]
    gone = [name for name in had if getattr(now, name) != had[name]]
    for what, names in (("kept from before", kept), ("changed or gone", gone)):
        if names:
            note(f"{what}: {', '.join(names)}", None)


def _settings(manifest: "ModelManifest") -> dict[str, object]:
    """Return what was set for a model: neither a fact of its file nor what a model has anyway."""
    from rase_core.manifest import ModelKind

    values = {name: getattr(manifest, name) for name in SETTINGS}
    facts = {name: getattr(manifest.from_file, name, None) for name in SETTINGS} | {
        "kind": ModelKind.GENERATOR
    }
    return {
        name: value for name, value in values.items() if value not in (None, (), {}) and value != facts[name]
    }


def no_models(store: "Path") -> str:
    """Say that a store has no model, or is not there at all, and what to do."""
    place = "" if store.exists() else f", there is no store at {store}"
    return f"no model is registered yet{place}: `rase model import` or `rase model pull`"


def summary(manifest: "ModelManifest") -> str:
    """Return the main facts of a model in a line."""
    facts = (manifest.architecture, f"context {manifest.context_length}", human_size(manifest.size))
    names = f", also {', '.join(manifest.aliases)}" if manifest.aliases else ""
    return f"{manifest.id} ({', '.join(str(fact) for fact in facts)}){names}"


def done(message: str, record: Record, *, as_json: bool) -> None:
    """Tell what was done: a line for a person, or a record."""
    if as_json:
        emit_json(record)
    else:
        note(message, None)


def _list_found(program: str, *, as_json: bool) -> None:
    from rase_core.neighbours import found_models

    models = found_models(program)
    if as_json:
        return emit_json({"models": [found_record(model) for model in models]})
    emit_table(("name", "bytes", "problem"), [(m.name, m.size or None, m.problem) for m in models])
    if not models:
        note(f"{program} has no model here")
    return None
