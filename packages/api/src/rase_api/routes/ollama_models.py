"""Ollama's API around models: POST /api/show; GET /api/tags, /api/ps, /api/version."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from rase_core.errors import ModelFileError, ModelFileNotFound, TemplateError

from rase_api.dialects import OLLAMA, Json
from rase_api.replies.ollama_models import listed, running, shown
from rase_api.routing import routes_of
from rase_api.schemas.ollama import ShowRequest
from rase_api.serving import ServingEngine
from rase_api.state import ServerState


def ollama_models_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state, OLLAMA)

    @routes.post("/api/show", response_model=None)
    async def show(request: Request) -> Json:
        body = await ShowRequest.read(request, state.settings)
        return await state.looked_up(_shown, state, body.asked)

    @routes.get("/api/tags", response_model=None)
    async def tags() -> Json:
        return listed(await state.looked_up(state.engine.list_models))

    @routes.get("/api/ps", response_model=None)
    async def ps() -> Json:
        return running(await state.looked_up(state.engine.loaded_models))

    @routes.get("/api/version", response_model=None)
    async def api_version() -> Json:
        return {"version": version("rase-api")}

    return routes


def _shown(state: ServerState, model_id: str) -> Json:
    manifest = state.find(model_id)
    return shown(manifest, state.engine.default_config(manifest.id), _template(state.engine, manifest.id))


def _template(engine: ServingEngine, model_id: str) -> str | None:
    """Return a model's chat template; None for one without, and for a file that cannot be read."""
    try:
        return engine.chat_template(model_id)
    except (TemplateError, ModelFileError, ModelFileNotFound):
        return None
