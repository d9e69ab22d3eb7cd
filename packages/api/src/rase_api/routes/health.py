"""GET /health: whether the server is alive."""

from fastapi import APIRouter

from rase_api.routes.route import Route


def health_routes() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(route_class=Route)

    @routes.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return routes
