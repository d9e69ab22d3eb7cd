"""`rase model ...`: the store."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
from rase_core.errors import EngineError

from rase_cli.failures import exit_code
from rase_cli.file_path import FilePath
from rase_cli.given_text import given_text
from rase_cli.model_host_options import CONTEXT_NAMES
from rase_cli.number import WholeNumber
from rase_cli.output import emit_fields, emit_json, emit_table, note, warn
from rase_cli.records import Record, broken_record, memory_record, model_record
from rase_cli.registering import done, import_found, no_models, registered, told
from rase_cli.settings import (
    DEVICE,
    KV_TYPE,
    STORE,
    THREADS,
    EngineOptions,
    Settings,
    open_engine,
    pass_settings,
    shared_options,
)
from rase_cli.sizes import size

if TYPE_CHECKING:
    from rase_core.errors import InvalidManifest
    from rase_core.manifest import ModelManifest
    from rase_models.engine import Engine

FILE = FilePath()
JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
PROGRAMS = ("ollama", "lmstudio", "hf-cache")
ID = click.option("--id", "model_id", metavar="ID", required=True, help="The name to register it under.")
ARCHITECTURE = click.option(
    "--architecture", metavar="NAME", help="Its architecture; must agree with the file. [default: the file's]"
)
CHAT_TEMPLATE = click.option(
    "--chat-template",
    metavar="NAME|TEXT",
    help="A built-in chat template or jinja text. [default: the file's]",
)
REPLACE = click.option(
    "--replace", is_flag=True, help="Let another file take an ID that is registered, with its settings gone."
)


class _Facts(TypedDict):
    """What the file says of a model unless it is given."""

    architecture: str | None
    context_length: int | None
    chat_template: str | None
    template_file: Path | None
    tokenizer: Path | None


ALSO = {"rm": "remove", "ls": "list"}
"""Other names of commands, which their help tells."""


class _Group(click.Group):
    """Takes a command by its other name, too; neither is listed twice."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALSO.get(cmd_name, cmd_name))


@click.group(cls=_Group)
def model() -> None:
    """Register, list, check and remove models. Weights stay where they are."""


@model.command("import")
@click.argument("path", type=given_text, metavar="PATH|NAME", required=False)
@click.option("--id", "model_id", metavar="ID", help="The name to register it under; of NAMEs their own.")
@click.option(
    "--from",
    "program",
    type=click.Choice(PROGRAMS),
    help="Register what this program has on the disk as NAME; without NAME, list what it has.",
)
@click.option("--kind", type=click.Choice(("generator", "embedding")), help="[default: generator]")
@ARCHITECTURE
@click.option("--context-length", type=WholeNumber(min=1), metavar="TOKENS", help="[default: the file's]")
@CHAT_TEMPLATE
@click.option("--chat-template-file", "template_file", type=FILE, help="A file of it, in place.")
@click.option("--tokenizer", type=FILE, help="A tokenizer.json. [default: the file's own vocabulary]")
@REPLACE
@JSON
@shared_options(STORE)
@pass_settings
def import_model(
    settings: Settings,
    path: str | None,
    model_id: str | None,
    program: str | None,
    kind: str | None,
    replace: bool,
    as_json: bool,
    **facts: Unpack[_Facts],
) -> None:
    """Register the GGUF file at PATH, in place, with all parts of a split model.

    With --from it is a model that Ollama, LM Studio or Hugging Face's cache has already, where it is. A file
    that is registered already keeps what was set for it, but for what is given now, and is hashed anew.
    """
    from rase_core.manifest import ModelKind

    if program is not None:
        _refuse_with_from(kind, *facts.values())
        return import_found(settings, program, path, model_id, replace=replace, as_json=as_json)
    if not path or model_id is None:
        raise click.UsageError(f"Missing {'option --id' if path else 'argument PATH'}.")
    if facts["chat_template"] is not None and facts["template_file"] is not None:
        raise click.UsageError("--chat-template and --chat-template-file cannot both be given")
    with open_engine(settings) as engine:
        before = registered(engine, model_id)
        kind_given = None if kind is None else ModelKind(kind)
        manifest = engine.import_model(path, model_id, kind=kind_given, replace=replace, **facts)
    return told(before, manifest, as_json=as_json)


def _refuse_with_from(*facts: object) -> None:
    if any(fact is not None for fact in facts):
        raise click.UsageError("with --from, only --id, --replace and --json can be given")


@model.command()
@click.option(
    "--repo",
    type=given_text,
    metavar="OWNER/NAME[:QUANT]",
    required=True,
    help="The repository on Hugging Face.",
)
@click.option(
    "--file", type=given_text, metavar="FILE", help="The file in it; not needed with :QUANT, as in :Q4_K_M."
)
@ID
@ARCHITECTURE
@CHAT_TEMPLATE
@click.option("--tokenizer-repo", type=given_text, metavar="OWNER/NAME", help="Where a tokenizer.json is.")
@click.option(
    "--tokenizer-file", type=given_text, metavar="FILE", help="Its name there. [default: tokenizer.json]"
)
@click.option("--revision", type=given_text, metavar="NAME", help="A branch, tag or commit. [default: main]")
@REPLACE
@JSON
@shared_options(STORE)
@pass_settings
def pull(
    settings: Settings,
    repo: str,
    file: str | None,
    model_id: str,
    architecture: str | None,
    chat_template: str | None,
    tokenizer_repo: str | None,
    tokenizer_file: str | None,
    revision: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Download a model from Hugging Face and register it.

    One that was pulled before is brought up to date, and keeps what was set for it.
    """
    with open_engine(settings) as engine:
        before = registered(engine, model_id)
        manifest = engine.pull(
            repo,
            file,
            model_id,
            architecture=architecture,
            chat_template=chat_template,
            tokenizer_repo=tokenizer_repo,
            tokenizer_file=tokenizer_file,
            revision=revision,
            replace=replace,
        )
    told(before, manifest, as_json=as_json)


@model.command("attach-tokenizer")
@click.argument("model_id", metavar="ID")
@click.option("--tokenizer", type=FILE, required=True, help="The tokenizer.json.")
@JSON
@shared_options(STORE)
@pass_settings
def attach_tokenizer(settings: Settings, model_id: str, tokenizer: Path, as_json: bool) -> None:
    """Let a model use a tokenizer.json instead of the file's own vocabulary."""
    with open_engine(settings) as engine:
        manifest = engine.attach_tokenizer(model_id, tokenizer)
    done(f"{model_id} uses {tokenizer}", model_record(manifest), as_json=as_json)


@model.command("list")
@JSON
@shared_options(STORE)
@pass_settings
def list_models(settings: Settings, as_json: bool) -> None:
    """List the registered models by id (also `rase model ls`).

    In a pipe: one line for each, tab-separated: id, architecture, context length, bytes, path of the weights,
    aliases with commas.
    """
    with open_engine(settings) as engine:
        models, broken = engine.list_models(), engine.broken_manifests()
    if as_json:
        records = [broken_record(error) for error in broken]
        return emit_json({"models": [model_record(manifest) for manifest in models], "broken": records})
    emit_table(
        ("id", "architecture", "context", "bytes", "weights", "aliases"),
        [
            (m.id, m.architecture, m.context_length, m.size, m.weights_path, ",".join(m.aliases))
            for m in models
        ],
    )
    for error in broken:
        warn(error.message)
    if not models and not broken:
        note(no_models(engine.store))
    return None


@model.command()
@click.argument("model_id", metavar="ID")
@click.option("--estimate", is_flag=True, help="Show the memory that it would take instead, in bytes.")
@click.option(*CONTEXT_NAMES, type=WholeNumber(min=1), metavar="TOKENS", help="For --estimate.")
@click.option("--kv-memory", type=size, metavar="SIZE", help="For --estimate.")
@click.option("--max-memory", type=size, metavar="SIZE", help="For --estimate.")
@JSON
@shared_options(STORE, DEVICE, THREADS, KV_TYPE)
@pass_settings
def inspect(
    settings: Settings,
    model_id: str,
    estimate: bool,
    context_length: int | None,
    kv_memory: int | None,
    max_memory: int | None,
    as_json: bool,
) -> None:
    """Show everything that is known about a model.

    With --estimate, how much memory it would take at most when it is served with these options.
    """
    own: EngineOptions = {"context_length": context_length, "kv_memory": kv_memory, "max_memory": max_memory}
    with open_engine(settings, **own) as engine:
        if estimate:
            record = memory_record(engine.estimate(model_id))
        else:
            manifest = engine.inspect(model_id)
            record = model_record(manifest)
            _warn_of(manifest, engine.broken_manifests())
    return emit_json(record) if as_json else emit_fields(record)


@model.command()
@click.argument("model_id", metavar="ID")
@click.argument("names", metavar="ALIAS...", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Take the names away instead.")
@JSON
@shared_options(STORE)
@pass_settings
def alias(settings: Settings, model_id: str, names: tuple[str, ...], remove: bool, as_json: bool) -> None:
    """Let a model be asked for by other names, too, such as those of other programs."""
    with open_engine(settings) as engine:
        change = engine.remove_alias if remove else engine.add_alias
        manifest = change(model_id, *names)
    now = ", ".join(manifest.aliases) or "nothing else"
    done(f"{manifest.id} is also {now}", model_record(manifest), as_json=as_json)


@model.command()
@click.argument("model_ids", type=given_text, metavar="[ID]...", nargs=-1)
@JSON
@shared_options(STORE)
@pass_settings
def verify(settings: Settings, model_ids: tuple[str, ...], as_json: bool) -> None:
    """Hash the models' files against their manifests; all models when none is named.

    In a pipe: one line for each, tab-separated: id, "ok" or "failed", what is wrong. The exit code is that of
    the last failure, 0 if there was none.
    """
    with open_engine(settings) as engine:
        results = list(_verify(engine, model_ids))
    if as_json:
        emit_json([record for record, _ in results])
    elif not results:
        note(no_models(engine.store))
    else:
        emit_table(("id", "result", "problem"), [(r["id"], r["result"], r["problem"]) for r, _ in results])
    codes = [code for _, code in results if code]
    if codes:
        raise click.exceptions.Exit(codes[-1])


def _verify(engine: "Engine", model_ids: tuple[str, ...]) -> Iterator[tuple[Record, int]]:
    """Yield a record and an exit code for each model; for unreadable manifests too when none is named."""
    broken = engine.broken_manifests()
    for model_id in model_ids or [manifest.id for manifest in engine.list_models()]:
        try:
            _warn_of(engine.verify(model_id), broken if model_ids else ())
            yield {"id": model_id, "result": "ok", "problem": None}, 0
        except EngineError as error:
            yield {"id": model_id, "result": "failed", "problem": error.message}, exit_code(error)
    for fault in () if model_ids else broken:
        yield {"id": fault.path.stem, "result": "failed", "problem": fault.message}, exit_code(fault)


def _warn_of(manifest: "ModelManifest", broken: "Sequence[InvalidManifest]") -> None:
    """Say what is odd about a manifest that can be read all the same."""
    faults = [fault.message for fault in broken if fault.path.stem == manifest.id]
    for message in (*manifest.warnings, *faults):
        warn(message)


@model.command()
@click.argument("model_id", metavar="ID")
@JSON
@shared_options(STORE)
@pass_settings
def remove(settings: Settings, model_id: str, as_json: bool) -> None:
    """Forget a model (also `rase model rm`). Its weights stay where they are."""
    with open_engine(settings) as engine:
        engine.remove(model_id)
    done(f"removed {model_id}; its weights are untouched", {"removed": model_id}, as_json=as_json)
