"""The server process: an address, uvicorn on it, and a quiet end."""

import asyncio
import contextlib
import logging
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Unpack

import uvicorn
from starlette.types import ASGIApp

from rase_api.app import app_of
from rase_api.full_tables import AcceptFaults
from rase_api.listening import is_loopback, listen, url_of
from rase_api.malformed import refusing
from rase_api.patience import SECONDS, patient
from rase_api.preloading import Preloading
from rase_api.serving import ServingEngine
from rase_api.settings import Options, Settings
from rase_api.state import ServerState
from rase_api.tls import Tls, tls_of
from rase_api.turns import short_turns

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
GRACE_SECONDS = 5
LAST_WORDS_SECONDS = 1
ECHO_SECONDS = 0.5
"""How long others after a signal are that one again, which `timeout` sends to a process and to its group."""
MOST_HEAD_BYTES = 64 * 1024
"""Of a head that has not come whole; the last piece of it may be longer."""
KEEP_SECONDS = 75
"""How long an idle connection stays: longer than clients keep one, or it ends under their next request."""

logger = logging.getLogger(__name__)

OnReady = Callable[[str], None]


def serve(
    engine: ServingEngine,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    on_ready: OnReady | None = None,
    grace: int = GRACE_SECONDS,
    tls_cert: Path | str | None = None,
    tls_key: Path | str | None = None,
    preload: Sequence[str] = (),
    **options: Unpack[Options],
) -> None:
    """Serve an engine until SIGINT or SIGTERM, then return.

    `on_ready` is told the server's URL once it accepts connections. After the signal, running requests have
    `grace` seconds to finish before they are ended with an error; a second signal, half a second or more
    later, does not wait for them. Port 0 takes a free one. The models to `preload` are loaded as soon as it
    listens, and /ready says so when they are there; one that fails ends the server, and its error is raised.
    With `tls_cert` and `tls_key`, files in PEM, it is HTTPS. The options are those of `Settings`. Warns when
    others can reach the server without a key.

    Raises AddressUnavailable, InvalidSetting or ModelNotFound, before anything is started.
    """
    settings, tls = Settings(**options), tls_of(tls_cert, tls_key)
    with _listening(host, port) as listeners, contextlib.ExitStack() as stack:
        if not settings.api_keys and not all(map(is_loopback, listeners)):
            logger.warning("whoever reaches %s may use this server: it asks for no API key", host)
        preloading = Preloading(engine, preload)
        state = stack.enter_context(contextlib.closing(ServerState(engine, settings, preloading)))
        stack.enter_context(_quiet_cancellations())
        stack.enter_context(short_turns())
        server = Server(app_of(state), on_ready=on_ready, on_late=state.end_answers, grace=grace, tls=tls)
        preloading.start(server.stop)
        server.run(sockets=listeners)
    if preloading.failure is not None:
        raise preloading.failure


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen at all addresses of a host; the sockets are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(listener) for listener in listen(host, port)]


class Server(uvicorn.Server):
    """Uvicorn that reports when it is ready, and returns after a signal instead of dying of it.

    After `grace` seconds, or a second signal, `on_late` ends the answers; what goes on then is cancelled.
    For `patience` seconds it waits for a client that does not finish the head of a request, or reads nothing
    of what it is sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        on_ready: OnReady | None = None,
        on_late: Callable[[], None] = lambda: None,
        grace: int = GRACE_SECONDS,
        tls: Tls | None = None,
        patience: float = SECONDS,
    ) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            http="h11",  # the one whose bounds are known, whatever else is installed
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=grace + LAST_WORDS_SECONDS,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.key,
        )
        self._scheme = "http" if tls is None else "https"
        super().__init__(config)
        self._on_ready, self._on_late, self._grace = on_ready, on_late, grace
        self._signalled, self._patience = -math.inf, patience

    def stop(self) -> None:
        """End as after a signal; from any thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        asyncio.get_running_loop().set_exception_handler(AcceptFaults())
        protocol = refusing(self.config.http_protocol_class)
        self.config.http_protocol_class = patient(protocol, self._patience)
        await super().startup(sockets)
        if self._on_ready is not None and self.started and sockets:
            self._on_ready(url_of(sockets[0], self._scheme))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests finish, and in the end let them say that they could not."""
        if running := len(self.server_state.tasks):
            told = "the server waits for running requests: %d, for %d s at most; another signal ends them now"
            logger.info(told, running, self._grace)
        late = asyncio.get_running_loop().call_later(self._grace, self._on_late)
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()
        if self.force_exit and self.server_state.tasks:
            self._on_late()
            await asyncio.wait(self.server_state.tasks, timeout=LAST_WORDS_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after a signal; after a second one, of whatever kind, at once, unless it is its echo."""
        now = time.monotonic()
        if not self.should_exit:
            self.should_exit, self._signalled = True, now
        elif now - self._signalled > ECHO_SECONDS:
            self.force_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Turn signals into a request to stop, while this lasts; only the main thread receives any."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _quiet_cancellations() -> Iterator[None]:
    """Keep uvicorn from logging, with a traceback, that it cancels what runs at its end."""

    def is_news(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))

    log = logging.getLogger("uvicorn.error")
    log.addFilter(is_news)
    try:
        yield
    finally:
        log.removeFilter(is_news)
