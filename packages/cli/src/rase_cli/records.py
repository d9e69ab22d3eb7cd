"""What the store and the devices say, as plain records for tables and JSON."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rase_core.device import ProbeReport
    from rase_core.errors import InvalidManifest
    from rase_core.manifest import ModelManifest
    from rase_core.neighbours import FoundModel
    from rase_models.memory_plan import MemoryPlan

Record = dict[str, object]


def model_record(manifest: "ModelManifest") -> Record:
    """Return a manifest's fields; paths as text, sizes in bytes, what is not known as None."""
    return {
        "id": manifest.id,
        "kind": manifest.kind.value,
        "format": manifest.format.value,
        "architecture": manifest.architecture,
        "context_length": manifest.context_length,
        "size": manifest.size,
        "weights": [
            {"path": str(file.path), "sha256": file.sha256, "size": file.size} for file in manifest.weights
        ],
        "tokenizer": _path(manifest.tokenizer),
        "tokenizer_sha256": manifest.tokenizer_sha256,
        "chat_template": manifest.chat_template,
        "template_file": _path(manifest.template_file),
        "defaults": dict(manifest.defaults),
        "source": _source(manifest),
        "aliases": list(manifest.aliases),
        "warnings": list(manifest.warnings),
    }


def memory_record(plan: "MemoryPlan") -> Record:
    """Return what a model would take, in bytes."""
    return {
        "total": plan.total,
        "weights": plan.weights,
        "keys_and_values": plan.kv,
        "states": plan.states,
        "workspace": plan.workspace,
        "vocabulary": plan.vocabulary,
        "kv_tokens": plan.kv_tokens,
        "context_length": plan.context_length,
    }


def found_record(model: "FoundModel") -> Record:
    """Return what another program keeps under a name."""
    return {
        "name": model.name,
        "path": _path(model.path),
        "size": model.size,
        "problem": model.problem,
        "notes": list(model.notes),
    }


def broken_record(error: "InvalidManifest") -> Record:
    """Return which manifest cannot be read and why."""
    return {"path": str(error.path), "line": error.line, "key": error.key, "reason": error.reason}


def probe_record(report: "ProbeReport") -> Record:
    """Return the device that would be used and what each one answered."""
    return {
        "requested": report.requested,
        "device": None if report.device is None else report.attempts[-1].name,
        "attempts": [
            {
                "device": attempt.name,
                "installed": attempt.installed,
                "usable": attempt.usable,
                "reason": attempt.reason,
                "detail": attempt.detail,
            }
            for attempt in report.attempts
        ],
    }


def _path(path: object) -> str | None:
    return None if path is None else str(path)


def _source(manifest: "ModelManifest") -> Record | None:
    source = manifest.source
    if source is None:
        return None
    return {"repo": source.repo, "file": source.file, "revision": source.revision}
