"""SGLang's API: POST /generate and GET /model_info."""

from fastapi import APIRouter, Request
from rase_core.manifest import ModelKind
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.dialects import Json
from rase_api.replies.sglang import SglangWriter
from rase_api.routing import routes_of
from rase_api.schemas.sglang import SglangRequest
from rase_api.state import ServerState


def sglang_routes(state: ServerState) -> APIRouter:
    """Make the routes; SGLang serves one model, so where there are several, `model` says which."""
    routes = routes_of(state)

    @routes.post("/generate", response_model=None)
    async def generate(request: Request) -> Response:
        body = await SglangRequest.read(request, state.settings)
        return await answer(request, state, body, body.model, body.plan(), lambda model: SglangWriter(body))

    @routes.get("/model_info", response_model=None)
    async def model_info(model: str | None = None) -> Json:
        return await state.looked_up(_info, state, model)

    return routes


def _info(state: ServerState, model_id: str | None) -> Json:
    manifest = state.find(model_id)
    return {
        "model_path": manifest.id,
        "tokenizer_path": manifest.id,
        "is_generation": manifest.kind is ModelKind.GENERATOR,
        "preferred_sampling_params": None,
        "max_context_length": manifest.context_length,
    }
