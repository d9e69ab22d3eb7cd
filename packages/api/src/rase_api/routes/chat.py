"""POST /v1/chat/completions, and what its prompt costs."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.counting import count_prompt
from rase_api.dialects import Json
from rase_api.plans import Conversation
from rase_api.replies.openai import ChatShape, OpenAIWriter
from rase_api.routing import routes_of
from rase_api.schemas.openai import ChatRequest
from rase_api.state import ServerState


def chat_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state)

    @routes.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> Response:
        body = await ChatRequest.read(request, state.settings)
        return await answer(
            request,
            state,
            body,
            body.model,
            _conversation(body),
            lambda model: OpenAIWriter(body, ChatShape(), model),
        )

    @routes.post("/v1/chat/completions/input_tokens", response_model=None)
    async def input_tokens(request: Request) -> Json:
        body = await ChatRequest.read(request, state.settings)
        return {"input_tokens": await count_prompt(state, body.model, _conversation(body), body.names)}

    return routes


def _conversation(body: ChatRequest) -> Conversation:
    return Conversation(
        body.turns(),
        body.choices,
        body.words(),
        bool(body.continue_final_message),
        response_format=body.constraint(),
        options=body.options(),
        is_read=True,
        logprobs=body.told(),
    )
