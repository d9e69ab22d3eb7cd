"""The application: the routes over an engine, alone or inside a host's own FastAPI application."""

from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from rase_api.errors import MethodNotAllowed, UnknownPath, envelope, error_response, fault_of
from rase_api.routes.chat import chat_routes
from rase_api.routes.completions import completions_routes
from rase_api.routes.health import health_routes
from rase_api.routes.models import models_routes
from rase_api.serving import ServingEngine
from rase_api.state import MAX_BODY_BYTES, WORKERS, ServerState


def router(engine: ServingEngine, *, max_body_bytes: int = MAX_BODY_BYTES) -> APIRouter:
    """Make a router that serves an engine, for an application that has routes of its own.

    The engine stays the caller's to close. Its errors are told in OpenAI's envelope; those of routing, and
    bugs, are the application's.
    """
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rase-api")
    state = ServerState(engine, pool, max_body_bytes)
    routes = APIRouter()
    for part in (health_routes(), models_routes(state), completions_routes(state), chat_routes(state)):
        routes.include_router(part)
    return routes


def create_app(engine: ServingEngine, *, max_body_bytes: int = MAX_BODY_BYTES) -> FastAPI:
    """Make an application that serves an engine; every error is told in OpenAI's envelope.

    The engine stays the caller's to close. Bodies longer than `max_body_bytes` are refused.
    """
    app = FastAPI(title="rase", openapi_url=None, redirect_slashes=False)
    app.include_router(router(engine, max_body_bytes=max_body_bytes))
    app.add_exception_handler(HTTPException, _unroutable)
    app.add_exception_handler(Exception, _broken)
    return app


def _unroutable(request: Request, error: Exception) -> Response:
    method, path = request.method, request.url.path
    headers = getattr(error, "headers", None) or {}
    unknown = MethodNotAllowed if "Allow" in headers else UnknownPath
    response = error_response(unknown(f"There is no {method} {path} here."))
    response.headers.update(headers)
    return response


def _broken(request: Request, error: Exception) -> Response:
    # Starlette raises the error again after the response, so that the server logs it.
    return JSONResponse(envelope(error), status_code=fault_of(error).status)
