"""The class of all routes."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from rase_core.errors import EngineError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rase_api.errors import error_response


class Route(APIRoute):
    """A route whose failures are told in OpenAI's envelope, in whatever application it is mounted."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except EngineError as error:
                return error_response(error)
            except ClientDisconnect:
                return Response()  # nobody reads it

        return guarded
