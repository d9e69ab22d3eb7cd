"""The class of all routes: who may ask, how failures are told, and what is noted of each request."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rase_api.dialects import OPENAI, Dialect
from rase_api.errors import MethodNotAllowed
from rase_api.record import record_of
from rase_api.state import ServerState

ERRORS: dict[int | str, dict[str, Any]] = {"default": {"description": "an error, in the API's own form"}}


CLIENT_GONE = 499
"""The status in the log of a request whose client left while it sent it; nobody reads it."""


class Route(APIRoute):
    """A route whose failures, bugs included, are told in its API's own form, wherever it is mounted."""

    state: ClassVar[ServerState]
    dialect: ClassVar[Dialect] = OPENAI
    is_public: ClassVar[bool] = False

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, watched."""
        await self.state.observer.watch(self._handle, scope, receive, send, route=self.path)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                if not self.is_public:
                    self.state.hosts.check(request)
                    self.state.keys.check(request)
                async with self.state.handling():
                    return await handle(request)
            except ClientDisconnect:
                record_of(request.scope).is_abandoned = True
                return Response(status_code=CLIENT_GONE)
            except Exception as error:  # noqa: BLE001 - also a bug is told, logged and counted as a request's
                record_of(request.scope).fail(error)
                return self.dialect.response(error)

        return guarded

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; what can be got can be asked for its head, whose body the server leaves out."""
        methods, method = self.methods or set(), scope["method"]
        if method == "HEAD" and "GET" in methods:
            await super().handle({**scope, "method": "GET"}, receive, send)
        elif not methods or method in methods:
            await super().handle(scope, receive, send)
        else:
            await self._refuse_method(scope, receive, send)

    async def _refuse_method(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = MethodNotAllowed(f"There is no {scope['method']} {scope['path']} here.")
        response = self.dialect.response(error)
        response.headers["Allow"] = ", ".join(sorted(self.methods or ()))
        await response(scope, receive, send)


def routes_of(state: ServerState, dialect: Dialect = OPENAI, *, is_public: bool = False) -> APIRouter:
    """Make a router for the routes of one API; public ones need no key."""
    bound = type("BoundRoute", (Route,), {"state": state, "dialect": dialect, "is_public": is_public})
    return APIRouter(route_class=bound, responses=ERRORS)
