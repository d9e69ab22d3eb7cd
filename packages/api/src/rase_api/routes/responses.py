"""POST /v1/responses, and what its prompt costs."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.counting import count_prompt
from rase_api.dialects import Json
from rase_api.replies.responses import ResponsesWriter
from rase_api.routing import routes_of
from rase_api.schemas.responses import ResponsesRequest
from rase_api.state import ServerState


def responses_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state)

    @routes.post("/v1/responses", response_model=None)
    async def responses(request: Request) -> Response:
        body = await ResponsesRequest.read(request, state.settings)
        return await answer(
            request,
            state,
            body,
            body.model,
            body.conversation_of(),
            lambda model: ResponsesWriter(body, model),
        )

    @routes.post("/v1/responses/input_tokens", response_model=None)
    async def input_tokens(request: Request) -> Json:
        body = await ResponsesRequest.read(request, state.settings)
        count = await count_prompt(state, body.model, body.conversation_of(), body.names)
        return {"object": "response.input_tokens", "input_tokens": count}

    return routes
