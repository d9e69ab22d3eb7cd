"""Around every request: its id, its line in the log, and its place in the metrics."""

from rase_core.errors import Cancelled
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase_api import access_log
from rase_api.expectation import Expectation
from rase_api.metrics import Metrics
from rase_api.record import Record
from rase_api.serving import ServingEngine

ID_HEADERS = ("x-request-id", "request-id")
"""Where OpenAI's and Anthropic's clients look for the id."""


class Observer:
    """Watches requests from their beginning to their end, whatever that is."""

    def __init__(self, engine: ServingEngine, *, json_log: bool) -> None:
        self.metrics = Metrics(engine)
        self._json_log = json_log

    async def watch(self, handle: ASGIApp, scope: Scope, receive: Receive, send: Send, *, route: str) -> None:
        """Handle a request; its record is found by `record_of` meanwhile."""
        record, expectation = Record.begin(scope, route), Expectation(scope, receive)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = MutableHeaders(raw=message["headers"])
                headers.update(dict.fromkeys(ID_HEADERS, record.id))
                expectation.settle(headers)
            await send(message)

        self.metrics.begin()
        try:
            await handle(scope, expectation.receive, noting)
        except BaseException as error:
            record.fail(error if isinstance(error, Exception) else Cancelled())
            raise
        finally:
            self._end(record)

    def _end(self, record: Record) -> None:
        record.end()
        self.metrics.end(record)
        access_log.write(record, as_json=self._json_log)
