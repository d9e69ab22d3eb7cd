"""The application: the routes over an engine, alone or inside a host's own FastAPI application."""

from http import HTTPStatus
from typing import Unpack

from fastapi import APIRouter, FastAPI, Request
from rase_core.errors import EngineError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from rase_api.dialects import dialect_at
from rase_api.errors import RequestError, UnknownPath
from rase_api.faults import LATER, NO_NAMES, fault_of
from rase_api.hosts import ANY
from rase_api.observer import ID_HEADERS
from rase_api.routes.anthropic import anthropic_routes
from rase_api.routes.chat import chat_routes
from rase_api.routes.completions import completions_routes
from rase_api.routes.description import description_routes
from rase_api.routes.embeddings import embeddings_routes, ollama_embeddings_routes
from rase_api.routes.health import health_routes, operations_routes
from rase_api.routes.models import models_routes
from rase_api.routes.ollama import ollama_routes
from rase_api.routes.ollama_models import ollama_models_routes
from rase_api.routes.page import page_routes
from rase_api.routes.responses import responses_routes
from rase_api.routes.sglang import sglang_routes
from rase_api.routes.tokens import tokens_routes
from rase_api.serving import ServingEngine
from rase_api.settings import Options, Settings
from rase_api.state import ServerState
from rase_api.targets import OriginForm
from rase_api.workers import refuse_workers

ROUTES = (
    health_routes,
    operations_routes,
    models_routes,
    completions_routes,
    chat_routes,
    responses_routes,
    embeddings_routes,
    tokens_routes,
    anthropic_routes,
    ollama_routes,
    ollama_models_routes,
    ollama_embeddings_routes,
    sglang_routes,
)


def router(engine: ServingEngine, **options: Unpack[Options]) -> APIRouter:
    """Make a router that serves an engine, for an application that has routes of its own.

    The engine stays the caller's to close; the options are those of `Settings`, whose `cors_origins` are the
    application's own affair here, as are the hosts by whose names it is asked, unless `allowed_hosts` are
    given. Its errors are told in each API's own form; those of routing are the application's. Raises
    InvalidSetting, and SeveralWorkers in a worker of a server that has more than one.
    """
    refuse_workers()
    own: Options = {"allowed_hosts": [ANY]}
    return _router(ServerState(engine, Settings(**(own | options))))


def create_app(engine: ServingEngine, **options: Unpack[Options]) -> FastAPI:
    """Make an application that serves an engine; every error is told in the form of the API asked.

    The engine stays the caller's to close; the options are those of `Settings`. Raises InvalidSetting, and
    SeveralWorkers in a worker of a server that has more than one.
    """
    refuse_workers()
    return app_of(ServerState(engine, Settings(**options)))


def app_of(state: ServerState) -> FastAPI:
    """Make the application of a server, whose state stays the caller's to close."""
    app = FastAPI(title="rase", openapi_url=None, redirect_slashes=False)
    app.include_router(_router(state))
    app.include_router(page_routes(state))
    app.include_router(description_routes(state, app))
    app.add_exception_handler(HTTPException, _Unrouted(state))
    app.add_exception_handler(Exception, _broken)
    if state.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(state.settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[*ID_HEADERS, *LATER],  # what the SDKs look at, in browsers too
        )
    app.add_middleware(OriginForm)
    return app


def _router(state: ServerState) -> APIRouter:
    routes = APIRouter()
    for make in ROUTES:
        routes.include_router(make(state))
    return routes


class _Unrouted:
    """Answers what no route takes, watched, and tells what a host's own route raises."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def __call__(self, request: Request, error: Exception) -> Response:
        path = request.url.path
        if "endpoint" in request.scope and isinstance(error, HTTPException):
            return _retold(path, error)
        unknown = UnknownPath(f"There is no {request.method} {path} here.")
        return _Watched(self._state, dialect_at(path).response(unknown))


class _Watched(Response):
    def __init__(self, state: ServerState, response: Response) -> None:
        super().__init__()
        self._state, self._response = state, response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._state.observer.watch(self._response, scope, receive, send, route="unknown")


def _retold(path: str, error: HTTPException) -> Response:
    kind = RequestError if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else EngineError
    envelope = dialect_at(path).envelope(kind(str(error.detail)), NO_NAMES)
    return JSONResponse(envelope, error.status_code, error.headers)


def _broken(request: Request, error: Exception) -> Response:
    # Starlette raises the error again after the response, so that the server logs it.
    envelope = dialect_at(request.url.path).envelope(error, NO_NAMES)
    return JSONResponse(envelope, status_code=fault_of(error).status)
