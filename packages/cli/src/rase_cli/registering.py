"""What has been registered, told; and models of other programs on the way there."""

from typing import TYPE_CHECKING

from rase_cli.output import emit_json, emit_table, human_size, note, warn
from rase_cli.records import Record, found_record, model_record
from rase_cli.settings import Settings, open_engine

if TYPE_CHECKING:
    from rase_core.manifest import ModelManifest


def import_found(
    settings: Settings, program: str, name: str | None, model_id: str | None, *, as_json: bool
) -> None:
    """Register what a program has under a name, and say what of it is left out; without a name, list it all.

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
        manifest = engine.import_found(found, model_id)
    return done(f"registered {summary(manifest)}", model_record(manifest), as_json=as_json)


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
