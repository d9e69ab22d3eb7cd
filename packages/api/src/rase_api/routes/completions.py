"""POST /v1/completions."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.plans import Completions
from rase_api.replies.openai import CompletionShape, OpenAIWriter
from rase_api.routing import routes_of
from rase_api.schemas.openai import CompletionRequest
from rase_api.state import ServerState


def completions_routes(state: ServerState) -> APIRouter:
    """Make the route."""
    routes = routes_of(state)

    @routes.post("/v1/completions", response_model=None)
    async def completions(request: Request) -> Response:
        body = await CompletionRequest.read(request, state.settings)
        return await answer(
            request,
            state,
            body,
            body.model,
            Completions(
                body.prompts(), body.choices, body.words(), body.constraint(), body.told(), bool(body.echo)
            ),
            lambda model: OpenAIWriter(body, CompletionShape(), model),
        )

    return routes
