"""Ollama's API: POST /api/chat and /api/generate."""

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from rase_api.answers import answer
from rase_api.dialects import OLLAMA
from rase_api.plans import Kept, Placed, Within, keep
from rase_api.replies.ollama import Content, OllamaWriter, chat_content, generate_content
from rase_api.replies.writer import line
from rase_api.routing import routes_of
from rase_api.schemas.ollama import OllamaChat, OllamaGenerate, OllamaRequest
from rase_api.serving import ServingEngine
from rase_api.state import ServerState


def ollama_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state, OLLAMA)

    @routes.post("/api/chat", response_model=None)
    async def chat(request: Request) -> Response:
        body = await OllamaChat.read(request, state.settings)
        return await _answer(request, state, body, chat_content)

    @routes.post("/api/generate", response_model=None)
    async def generate(request: Request) -> Response:
        body = await OllamaGenerate.read(request, state.settings)
        return await _answer(request, state, body, generate_content)

    return routes


async def _answer(request: Request, state: ServerState, body: OllamaRequest, content: Content) -> Response:
    writer = OllamaWriter(body, content)
    plan = body.plan()
    if plan is None:
        return await _load(state, body, writer)
    if body.context_length is not None:
        plan = Within(plan, body.context_length, "options.num_ctx")
    if body.gpu_layers is not None:
        plan = Placed(plan, body.gpu_layers, "options.num_gpu")
    if body.keep_alive is not None:
        plan = Kept(plan, body.keep_alive)
    return await answer(request, state, body, body.model, plan, lambda model: writer)


async def _load(state: ServerState, body: OllamaRequest, writer: OllamaWriter) -> Response:
    """Bring the model into memory, or let go of it."""
    if body.unloads:
        await state.unload(body.model)
    else:
        await state.asked(partial(_bring, body.keep_alive), body.model)
    whole = writer.only_loaded("unload" if body.unloads else "load")
    if body.is_streamed:
        return Response(line(whole), media_type=writer.media_type)
    return JSONResponse(whole)


def _bring(keep_alive: float | None, engine: ServingEngine, model_id: str) -> None:
    engine.load(model_id)
    if keep_alive is not None:
        keep(engine, model_id, keep_alive)
