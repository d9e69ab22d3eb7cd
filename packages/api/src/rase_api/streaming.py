"""Answers in pieces, as their text comes."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rase_api.asking import Argued, Called, Failed, Finished, Started, Text, Thought
from rase_api.faults import report
from rase_api.record import Record, record_of
from rase_api.replies.writer import Writer
from rase_api.work import Event, Quiet, Work

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def written(writer: Writer, event: Event) -> Iterable[bytes]:
    """Write an event of the work."""
    match event:
        case Started(index, prompt_tokens):
            return writer.started(index, prompt_tokens)
        case Text(index, text, told, count):
            return writer.text(index, text, told, count)
        case Thought(index, text, told):
            return writer.thought(index, text, told)
        case Called(index, call, told):
            return writer.called(index, call, told)
        case Argued(index, piece, told):
            return writer.argued(index, piece, told)
        case Finished(index, generation, told=told):
            return writer.finished(index, generation, told)
        case Failed(error):
            report(error)
            return writer.failed(error)
        case Quiet():
            return (writer.quiet,) if writer.quiet else ()


class StreamedAnswer(Response):
    """A response that sends work's events as they come, and closes the work however it ends.

    A failure, also one of the writing itself, becomes the last piece, and then the stream ends without its
    usual end. `patience` is the most seconds without a sign of life.
    """

    def __init__(self, work: Work, first: Event | None, writer: Writer, patience: float) -> None:
        super().__init__(headers=HEADERS, media_type=writer.media_type)
        del self.headers["content-length"]
        self._work, self._first, self._writer, self._patience = work, first, writer, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            async with aclosing(self._bodies(record_of(scope))) as bodies:
                async for body in bodies:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._work.close()

    async def _bodies(self, record: Record) -> AsyncGenerator[bytes]:
        """Yield the stream as far as it can be written, and what went wrong then."""
        try:
            async for pieces in self._pieces():
                if body := b"".join(pieces):
                    yield body
        except Exception as error:  # noqa: BLE001 - a bug is told, logged and counted as any failure
            self._work.close()
            record.fail(error)
            yield b"".join(written(self._writer, Failed(error)))

    async def _pieces(self) -> AsyncGenerator[Iterable[bytes]]:
        event = self._first
        while event is not None:
            yield written(self._writer, event)
            if isinstance(event, Failed):
                return
            event = await self._work.next(self._patience)
        yield self._writer.end()
