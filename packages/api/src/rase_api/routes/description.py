"""GET /openapi.json: what there is to ask."""

from functools import cache

from fastapi import APIRouter, FastAPI

from rase_api.description import described
from rase_api.dialects import Json
from rase_api.routing import routes_of
from rase_api.state import ServerState


def description_routes(state: ServerState, app: FastAPI) -> APIRouter:
    """Make the route."""
    routes = routes_of(state)

    @cache
    def description() -> Json:
        return described(app.routes)

    @routes.get("/openapi.json", response_model=None, include_in_schema=False)
    async def openapi() -> Json:
        return await state.looked_up(description)

    return routes
