"""POST /v1/chat/completions."""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.body import read_object
from rase_api.replies import ChatShape
from rase_api.routes.route import Route
from rase_api.schemas import ChatRequest
from rase_api.serving import IsCancelled, OnText, ServingEngine
from rase_api.state import ServerState
from rase_api.words import without
from rase_api.work import Choice


def chat_routes(state: ServerState) -> APIRouter:
    """Make the route."""
    routes = APIRouter(route_class=Route)

    @routes.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> Response:
        body = ChatRequest.parse(await read_object(request, state.max_body_bytes))
        return await answer(
            request, state, body, ChatShape(), lambda config: choices(state.engine, body, config)
        )

    return routes


def choices(engine: ServingEngine, body: ChatRequest, config: GenerationConfig) -> Iterator[Choice]:
    """Plan the generations of a request; to be iterated where waiting is allowed."""
    config = without(engine, body.model, config, body.words())
    turns = body.turns()
    for index in range(body.choices):

        def run(on_text: OnText, cancelled: IsCancelled, choice: int = index) -> Generation:
            return engine.chat(
                body.model,
                turns,
                config,
                on_text=on_text,
                cancelled=cancelled,
                choice=choice,
                continue_final_message=bool(body.continue_final_message),
            )

        yield Choice(index, run)
