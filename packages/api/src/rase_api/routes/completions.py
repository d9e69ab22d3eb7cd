"""POST /v1/completions."""

from collections.abc import Iterator
from itertools import product

from fastapi import APIRouter, Request
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from starlette.responses import Response

from rase_api.answers import answer
from rase_api.body import read_object
from rase_api.replies import CompletionShape
from rase_api.routes.route import Route
from rase_api.schemas import CompletionRequest, Prompt
from rase_api.serving import IsCancelled, OnText, ServingEngine
from rase_api.state import ServerState
from rase_api.words import without
from rase_api.work import Choice


def completions_routes(state: ServerState) -> APIRouter:
    """Make the route."""
    routes = APIRouter(route_class=Route)

    @routes.post("/v1/completions", response_model=None)
    async def completions(request: Request) -> Response:
        body = CompletionRequest.parse(await read_object(request, state.max_body_bytes))
        return await answer(
            request, state, body, CompletionShape(), lambda config: choices(state.engine, body, config)
        )

    return routes


def choices(engine: ServingEngine, body: CompletionRequest, config: GenerationConfig) -> Iterator[Choice]:
    """Plan the generations of a request, prompt by prompt; to be iterated where waiting is allowed.

    A prompt's choices are numbered from 0, so that it gets the same answers alone and in a list.
    """
    config = without(engine, body.model, config, body.words())
    for index, (prompt, choice) in enumerate(product(body.prompts(), range(body.choices))):

        def run(
            on_text: OnText, cancelled: IsCancelled, prompt: Prompt = prompt, choice: int = choice
        ) -> Generation:
            return engine.generate(
                body.model, prompt, config, on_text=on_text, cancelled=cancelled, choice=choice
            )

        yield Choice(index, run)
