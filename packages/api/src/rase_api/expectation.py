"""Clients that wait to be asked for a body (`Expect: 100-continue`), and are answered without being asked.

Nobody knows then whether their next bytes are that body or another request, so the connection ends.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope


class Expectation:
    """Whether the body of a request was asked for, where its client waits for that."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        expected = Headers(scope=scope).get("expect", "").lower()
        self._is_waiting = expected == "100-continue" and scope["http_version"] == "1.1"
        self._receive = receive

    async def receive(self) -> Message:
        """Ask for the body, or for more of it."""
        self._is_waiting = False
        return await self._receive()

    def settle(self, headers: MutableHeaders) -> None:
        """Let an answer say that the connection ends if the client still waits."""
        if self._is_waiting:
            headers["Connection"] = "close"
