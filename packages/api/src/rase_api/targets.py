"""Request targets in absolute form, `GET http://host:port/path`, which servers must take (RFC 9112, 3.2.2).

The authority of such a target is the host that is asked, whatever the header Host says.
"""

import re
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

ABSOLUTE = re.compile(rb"https?://(?P<authority>[^/]+)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)


class OriginForm:
    """Lets an application see every target as a path and a Host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and (target := ABSOLUTE.fullmatch(scope.get("raw_path") or b"")):
            path = target["path"] or b"/"
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [(b"host", target["authority"]), *others]
            scope["raw_path"], scope["path"] = path, unquote(path.decode("latin-1"))
        await self._app(scope, receive, send)
