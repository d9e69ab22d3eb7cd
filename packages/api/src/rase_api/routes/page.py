"""GET / and /docs: pages to chat on, and to read what there is to ask.

They hold nothing of the server and need no key; what they ask for does.
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from rase_api.routing import routes_of
from rase_api.state import ServerState

PAGES = {"/": "chat.html", "/docs": "reference.html"}
INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page_routes(state: ServerState) -> APIRouter:
    """Make the routes."""
    routes = routes_of(state, is_public=True)

    for path, name in PAGES.items():
        _serve(routes, path, name)
    return routes


def _serve(routes: APIRouter, path: str, name: str) -> None:
    @routes.api_route(path, methods=["GET"], response_model=None, include_in_schema=False)
    async def page() -> Response:
        return Response(_page(name), headers=_headers(name), media_type="text/html")


@cache
def _page(name: str) -> str:
    return files("rase_api").joinpath("static", name).read_text("utf-8")


@cache
def _headers(name: str) -> dict[str, str]:
    """Let the page run its own script and style and speak to this server, and nothing else."""
    sources = {tag: _source(text) for tag, text in INLINE.findall(_page(name))}
    policy = {
        "default-src": "'none'",
        "script-src": sources["script"],
        "style-src": sources["style"],
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
