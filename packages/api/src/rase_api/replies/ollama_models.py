"""Models as Ollama describes them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rase_core.manifest import ModelManifest
from rase_core.sampling import GenerationConfig
from rase_models.chat.dialect import chat_dialect

from rase_api.dialects import Json
from rase_api.serving import LoadedModel

NEVER = "9999-12-31T23:59:59Z"


def listed(manifests: Sequence[ModelManifest]) -> Json:
    """Write what is registered."""
    return {"models": [_model(manifest) | {"modified_at": _modified(manifest)} for manifest in manifests]}


def running(models: Sequence[LoadedModel]) -> Json:
    """Write what is in memory, how much each takes and may take, and until when it stays unused."""
    return {"models": [_running(model) for model in models]}


def shown(manifest: ModelManifest, defaults: GenerationConfig, template: str | None) -> Json:
    """Write what is known of a model without loading it; `template` is that of its chats, if it has one."""
    return {
        "modelfile": "",
        "parameters": "\n".join(f"{name} {value}" for name, value in _parameters(defaults).items()),
        "template": template or "",
        "details": _details(manifest),
        "model_info": _info(manifest),
        "capabilities": capabilities(template),
        "modified_at": _modified(manifest),
    }


def capabilities(template: str | None) -> list[str]:
    """Tell what clients may ask for, in Ollama's words: calls and thoughts that the template knows of."""
    if template is None:
        return ["completion"]
    dialect = chat_dialect(template)
    more = {"tools": dialect.calls is not None, "thinking": dialect.has_thoughts}
    return ["completion", *(name for name, has in more.items() if has)]


def _model(manifest: ModelManifest) -> Json:
    return {
        "name": manifest.id,
        "model": manifest.id,
        "size": manifest.size,
        "digest": manifest.weights[0].sha256,
        **({"aliases": list(manifest.aliases)} if manifest.aliases else {}),
        "details": _details(manifest),
    }


def _running(model: LoadedModel) -> Json:
    memory, nbytes = model.memory, model.manifest.size
    place: Json = {
        "size": nbytes if memory is None else memory.held(model.snapshot().kv_used),
        "size_limit": nbytes if memory is None else memory.total,
        "size_vram": 0,
        "expires_at": _expiry(model.expires_in),
        "context_length": model.decoder.context_length,
    }
    return _model(model.manifest) | place


def _expiry(seconds: float | None) -> str:
    return NEVER if seconds is None else _written(datetime.now(UTC) + timedelta(seconds=seconds))


def _details(manifest: ModelManifest) -> Json:
    family = manifest.architecture or ""
    return {
        "parent_model": "",
        "format": manifest.format.value,
        "family": family,
        "families": [family] if family else [],
        "parameter_size": "",
        "quantization_level": "",
    }


def _info(manifest: ModelManifest) -> Json:
    if manifest.architecture is None:
        return {}
    info: Json = {"general.architecture": manifest.architecture}
    if manifest.context_length is not None:
        info[f"{manifest.architecture}.context_length"] = manifest.context_length
    return info


def _parameters(defaults: GenerationConfig) -> dict[str, object]:
    return {
        "num_predict": defaults.max_tokens,
        "temperature": defaults.temperature,
        "top_k": defaults.top_k,
        "top_p": defaults.top_p,
        "min_p": defaults.min_p,
        "repeat_penalty": defaults.repetition_penalty,
        "repeat_last_n": defaults.penalty_last_n,
        "seed": defaults.seed,
    }


def _modified(manifest: ModelManifest) -> str:
    try:
        seconds = manifest.weights_path.stat().st_mtime
    except OSError:
        seconds = 0
    return _written(datetime.fromtimestamp(seconds, UTC))


def _written(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
