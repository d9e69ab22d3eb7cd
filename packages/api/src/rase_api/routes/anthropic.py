"""Anthropic's API: POST /v1/messages and /v1/messages/count_tokens."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.counting import count_prompt
from rase_api.dialects import ANTHROPIC, Json
from rase_api.replies.anthropic import AnthropicWriter
from rase_api.routing import routes_of
from rase_api.schemas.anthropic import CountRequest, MessagesRequest
from rase_api.state import ServerState


def anthropic_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state, ANTHROPIC)

    @routes.post("/v1/messages", response_model=None)
    async def messages(request: Request) -> Response:
        body = await MessagesRequest.read(request, state.settings)
        return await answer(
            request,
            state,
            body,
            body.model,
            body.conversation(),
            lambda model: AnthropicWriter(body, model),
        )

    @routes.post("/v1/messages/count_tokens", response_model=None)
    async def count_tokens(request: Request) -> Json:
        body = await CountRequest.read(request, state.settings)
        return {"input_tokens": await count_prompt(state, body.model, body.conversation(), body.prompt_names)}

    return routes
