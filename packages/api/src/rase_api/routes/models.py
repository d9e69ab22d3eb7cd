"""GET /v1/models and /v1/models/{id}: what is registered."""

from fastapi import APIRouter
from rase_core.manifest import ModelManifest

from rase_api.dialects import Json
from rase_api.routing import routes_of
from rase_api.state import ServerState


def models_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state)

    @routes.get("/v1/models", response_model=None)
    async def models() -> Json:
        return {"object": "list", "data": await state.looked_up(_listed, state)}

    @routes.get("/v1/models/{model_id:path}", response_model=None)
    async def model(model_id: str) -> Json:
        return _model(await state.looked_up(state.find, model_id))

    return routes


def _listed(state: ServerState) -> list[Json]:
    return [_model(manifest) for manifest in state.engine.list_models()]


def _model(manifest: ModelManifest) -> Json:
    aliases = {"aliases": list(manifest.aliases)} if manifest.aliases else {}
    return {
        "id": manifest.id,
        "object": "model",
        "created": _created(manifest),
        "owned_by": "rase",
        **aliases,
    }


def _created(manifest: ModelManifest) -> int:
    try:
        return int(manifest.weights_path.stat().st_mtime)
    except OSError:
        return 0
