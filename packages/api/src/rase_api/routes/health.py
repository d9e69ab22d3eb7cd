"""GET /health, /ready, /props and /metrics: for those who run the server."""

from collections.abc import Mapping
from importlib.metadata import version
from math import isfinite

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from rase_api.dialects import Json
from rase_api.metrics import CONTENT_TYPE
from rase_api.routing import routes_of
from rase_api.serving import LoadedModel, ServingEngine
from rase_api.state import ServerState


def health_routes(state: ServerState) -> APIRouter:
    """Make the route that needs no key."""
    routes = routes_of(state, is_public=True)

    @routes.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return routes


def operations_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state)

    @routes.get("/ready", response_model=None)
    async def ready() -> Json:
        return {"status": "ready", "models": await state.looked_up(state.ready_models)}

    @routes.get("/props", response_model=None)
    async def props(model: str | None = None) -> Json:
        manifest = await state.looked_up(state.find, model)
        return await state.looked_up(_props, state.engine, manifest.id)

    @routes.get("/metrics", response_class=PlainTextResponse, response_model=None)
    async def metrics() -> Response:
        text = await state.looked_up(state.observer.metrics.text)
        return Response(text, media_type=CONTENT_TYPE)

    return routes


def _props(engine: ServingEngine, model_id: str) -> Json:
    """Tell how a model is set up; the template and the context are known once it is loaded."""
    loaded = {model.manifest.id: model for model in engine.loaded_models()}
    model = loaded.get(model_id)
    params = engine.default_config(model_id).to_mapping()
    return {
        "model": model_id,
        "model_path": str(engine.inspect(model_id).weights_path),
        "is_loaded": model is not None,
        "default_generation_settings": {"n_ctx": _context(model), "params": _plain(params)},
        "chat_template": None if model is None else model.template.source,
        "device": engine.device if model is None else model.device,
        "fallback": None if model is None else model.fallback,
        "build_info": f"rase-api {version('rase-api')}",
    }


def _context(model: LoadedModel | None) -> int | None:
    return None if model is None else model.decoder.context_length


def _plain(params: dict[str, object]) -> Json:
    return {name: _json(value) for name, value in params.items()}


def _json(value: object) -> object:
    """Write a setting as JSON, which has neither sets nor infinities (those of forbidden tokens)."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(key): bias if isfinite(bias) else str(bias) for key, bias in value.items()}
    return value
