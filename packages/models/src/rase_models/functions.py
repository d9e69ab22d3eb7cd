"""The engine as plain functions over one cache of the process: a flat surface of texts and numbers.

Manifests are returned as TOML text, answers as plain text. Every failure is an EngineError.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from rase_core.errors import BackendUnavailable, InvalidParameter
from rase_core.manifest import ModelKind, ModelManifest
from rase_core.manifest_file import render_manifest
from rase_core.sampling import GenerationConfig

from rase_models.device_check import ACCELERATORS, accelerator, probe_devices
from rase_models.engine import Engine
from rase_models.session_cache import SessionCache

Messages = Sequence[Mapping[str, str]]


def import_model(
    store: str,
    path: str,
    id: str,
    kind: str = "generator",
    architecture: str | None = None,
    context_length: int | None = None,
    chat_template: str | None = None,
) -> str:
    """Register a GGUF file in place and return its manifest; see Engine.import_model.

    A model that is registered again as a generator, the default, stays of the kind that it is.
    """
    manifest = _engine(store).import_model(
        path,
        id,
        kind=_stated(kind),
        architecture=architecture,
        context_length=context_length,
        chat_template=chat_template,
    )
    return _toml(manifest)


def pull_model(
    store: str,
    repo: str,
    file: str,
    id: str,
    kind: str = "generator",
    architecture: str | None = None,
    context_length: int | None = None,
    chat_template: str | None = None,
) -> str:
    """Download a file from Hugging Face and register it as `import_model` does; see Engine.pull."""
    manifest = _engine(store).pull(
        repo,
        file,
        id,
        kind=_stated(kind),
        architecture=architecture,
        context_length=context_length,
        chat_template=chat_template,
    )
    return _toml(manifest)


def inspect_model(store: str, id: str) -> str:
    """Return a model's manifest."""
    return _toml(_engine(store).inspect(id))


def list_models(store: str) -> list[str]:
    """Return the ids of the registered models, sorted."""
    return [manifest.id for manifest in _engine(store).list_models()]


def verify_model(store: str, id: str) -> str:
    """Hash a model's files and return its manifest; raises IntegrityMismatch."""
    return _toml(_engine(store).verify(id))


def attach_tokenizer(store: str, id: str, tokenizer: str) -> str:
    """Let a model use a tokenizer.json and return its manifest."""
    return _toml(_engine(store).attach_tokenizer(id, tokenizer))


def probe_runtime(device: str = "auto") -> str:
    """Compute something small on a device and return `backend=cpu; accelerated=false`.

    Raises BackendUnavailable with the reasons when none is usable.
    """
    report = probe_devices(device)
    if report.device is None:
        reasons = "; ".join(f"{attempt.name}: {attempt.reason}" for attempt in report.attempts)
        advice = "; ".join(attempt.detail for attempt in report.attempts if attempt.detail)
        raise BackendUnavailable(device, reasons, advice or "use the device auto")
    return f"backend={report.attempts[-1].name}; accelerated={str(report.device in ACCELERATORS).lower()}"


def generate_registered_gguf(
    store: str,
    id: str,
    prompt: str,
    max_tokens: int = 256,
    temperature: float = 0.7,
    top_k: int | None = 40,
    seed: int = 0,
    stop_tokens: Sequence[int] = (),
    device: str = "auto",
) -> str:
    """Continue a text with a registered model; top_k None is off."""
    engine = _engine(store, device)
    config = _config(engine.default_config(id), max_tokens, temperature, top_k, seed, stop_tokens)
    return engine.generate(id, prompt, config).text


def generate_chat_registered_gguf(
    store: str,
    id: str,
    messages: Messages,
    max_tokens: int = 256,
    temperature: float = 0.7,
    top_k: int | None = 40,
    seed: int = 0,
    device: str = "auto",
) -> str:
    """Answer a conversation of `{"role": ..., "content": ...}` with a registered model."""
    engine = _engine(store, device)
    config = _config(engine.default_config(id), max_tokens, temperature, top_k, seed)
    return engine.chat(id, messages, config).text


def generate_chat_stream_registered_gguf(
    store: str,
    id: str,
    messages: Messages,
    on_delta: Callable[[str], bool | None],
    max_tokens: int = 256,
    temperature: float = 0.7,
    top_k: int | None = 40,
    seed: int = 0,
    device: str = "auto",
) -> str:
    """Answer a conversation, telling each piece of text, and return all of it.

    `on_delta` ends the answer by returning False, and what it raises is raised here.
    """
    engine = _engine(store, device)
    config = _config(engine.default_config(id), max_tokens, temperature, top_k, seed)
    return engine.stream_chat(id, messages, config, on_text=on_delta).text


def generate_llama_gguf(
    weights: str,
    tokenizer: str,
    prompt: str,
    max_tokens: int = 256,
    temperature: float = 0.7,
    top_k: int | None = 40,
    seed: int = 0,
    stop_tokens: Sequence[int] = (),
    device: str = "auto",
) -> str:
    """Continue a text with a file that is not registered, of any supported architecture."""
    config = _config(GenerationConfig(), max_tokens, temperature, top_k, seed, stop_tokens)
    return Engine(device=device).generate_file(weights, tokenizer, prompt, config).text


def unload_models() -> None:
    """Let go of the memory of all models."""
    _cache().clear()


def profiling_snapshot(reset: bool = True) -> str:
    """Return the counters of the process as a JSON object; all zero unless RASE_PROFILE is 1."""
    return json.dumps(_cache().profile.snapshot(reset=reset))


def gpu_info() -> str:
    """Tell which accelerator computes: `active: ` and its name, else why none does.

    That is `fallback: ` where the CPU computes in its place, `inactive: ` where nothing can.
    """
    return accelerator()


@cache
def _cache() -> SessionCache:
    return SessionCache()


def _engine(store: str, device: str = "auto") -> Engine:
    return Engine(store, device, cache=_cache())


def _stated(kind: str) -> ModelKind | None:
    """Return the kind unless it is the default, which says nothing of a model that has one already."""
    try:
        return None if (known := ModelKind(kind)) is ModelKind.GENERATOR else known
    except ValueError:
        raise InvalidParameter("kind", kind, " or ".join(ModelKind)) from None


def _toml(manifest: ModelManifest) -> str:
    return render_manifest(manifest)


def _config(
    defaults: GenerationConfig,
    max_tokens: int,
    temperature: float,
    top_k: int | None,
    seed: int,
    stop_tokens: Sequence[int] = (),
) -> GenerationConfig:
    return replace(
        defaults,
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=0 if top_k is None else top_k,
        seed=seed,
        stop_tokens=defaults.stop_tokens | frozenset(stop_tokens),
    )
