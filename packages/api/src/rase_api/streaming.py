"""Server-sent events: an answer in pieces, as its text comes."""

import json
from collections.abc import Iterator

from rase_core.generation import Generation
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rase_api.errors import envelope, report
from rase_api.parameters import Parameters
from rase_api.replies import Json, Reply, usage
from rase_api.work import Event, Failed, Finished, Text, Work

DONE = b"data: [DONE]\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def sse(value: Json) -> bytes:
    """Write one event, in ASCII only: clients split lines at characters that JSON leaves as they are."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n\n"


class Pieces:
    """The events of one streamed answer, in OpenAI's order."""

    def __init__(self, body: Parameters, reply: Reply) -> None:
        self._body, self._reply = body, reply
        self._opened: set[int] = set()
        self._generations: list[Generation] = []

    def of(self, event: Event) -> Iterator[Json]:
        """Yield what an event of the work is on the wire."""
        match event:
            case Text(index, text):
                yield from self._opening(index)
                yield self._chunk(self._reply.shape.delta(index, text))
            case Finished(index, generation):
                self._generations.append(generation)
                yield from self._opening(index)
                yield self._chunk(self._reply.shape.closing(index, generation))
            case Failed(error):
                report(error)
                yield envelope(error, self._body.names)

    def cost(self) -> Iterator[Json]:
        """Yield the chunk that counts the tokens, if it was asked for."""
        if self._body.has_usage_chunk:
            yield self._reply.chunk() | {"usage": usage(self._generations, self._body.choices)}

    def _opening(self, index: int) -> Iterator[Json]:
        if index not in self._opened:
            self._opened.add(index)
            opening = self._reply.shape.opening(index)
            if opening is not None:
                yield self._chunk(opening)

    def _chunk(self, choice: Json) -> Json:
        chunk = self._reply.chunk(choice)
        return chunk | {"usage": None} if self._body.has_usage_chunk else chunk


class EventStream(Response):
    """A response that sends work's events as they come, and closes the work however it ends.

    A failure becomes the last event, and then the stream ends without [DONE].
    """

    media_type = "text/event-stream"

    def __init__(self, work: Work, first: Event | None, pieces: Pieces) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._work, self._first, self._pieces = work, first, pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            await self._send_events(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._work.close()

    async def _send_events(self, send: Send) -> None:
        event = self._first
        while event is not None:
            for piece in self._pieces.of(event):
                await _send_block(send, sse(piece))
            if isinstance(event, Failed):
                return
            event = await self._work.next()
        for piece in self._pieces.cost():
            await _send_block(send, sse(piece))
        await _send_block(send, DONE)


async def _send_block(send: Send, block: bytes) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": True})
