"""GET /health: whether the server is alive."""

from fastapi import APIRouter

from rase_api.routing import routes_of
from rase_api.state import ServerState


def health_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state, is_public=True)

    @routes.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return routes
