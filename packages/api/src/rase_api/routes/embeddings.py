"""POST /v1/embeddings, /api/embed and /api/embeddings: a clear refusal while no model can embed."""

from fastapi import APIRouter, Request

from rase_api.dialects import OLLAMA
from rase_api.errors import UnsupportedParameter
from rase_api.routing import routes_of
from rase_api.schemas.embeddings import EmbeddingsRequest, OllamaEmbedRequest
from rase_api.state import ServerState


def embeddings_routes(state: ServerState) -> APIRouter:
    """Make OpenAI's route."""
    routes = routes_of(state)

    @routes.post("/v1/embeddings", response_model=None)
    async def embeddings(request: Request) -> None:
        body = await EmbeddingsRequest.read(request, state.settings)
        await _refuse(state, body.model)

    return routes


def ollama_embeddings_routes(state: ServerState) -> APIRouter:
    """Make Ollama's routes."""
    routes = routes_of(state, OLLAMA)

    @routes.post("/api/embed", response_model=None)
    @routes.post("/api/embeddings", response_model=None)
    async def embed(request: Request) -> None:
        body = await OllamaEmbedRequest.read(request, state.settings)
        await _refuse(state, body.model)

    return routes


async def _refuse(state: ServerState, model_id: str) -> None:
    manifest = await state.looked_up(state.find, model_id)
    raise UnsupportedParameter(
        f"Unsupported parameter: 'model': {manifest.id!r} gives no embeddings; embedding models are not "
        "supported yet.",
        "model",
    )
