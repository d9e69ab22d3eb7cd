"""The server process: an address, uvicorn on it, and a quiet end."""

import contextlib
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Unpack

import uvicorn
from starlette.types import ASGIApp

from rase_api.app import create_app
from rase_api.errors import AddressUnavailable
from rase_api.serving import ServingEngine
from rase_api.settings import Options

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080
GRACE_SECONDS = 5
BACKLOG = 256
PORTS = 2**16

OnReady = Callable[[str], None]


def serve(
    engine: ServingEngine,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    on_ready: OnReady | None = None,
    grace: int = GRACE_SECONDS,
    **options: Unpack[Options],
) -> None:
    """Serve an engine until SIGINT or SIGTERM, then return.

    `on_ready` is told the server's URL once it accepts connections. After the signal, running requests have
    `grace` seconds to finish before they are cancelled; a second SIGINT does not wait for them. Port 0 takes
    a free one. The options are those of `Settings`.

    Raises AddressUnavailable or InvalidSetting, before anything is started.
    """
    app = create_app(engine, **options)
    listener = listen(host, port)
    with contextlib.closing(listener):
        Server(app, on_ready=on_ready, grace=grace).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen on an address; raises AddressUnavailable saying why not."""
    if not 0 <= port < PORTS:  # or getaddrinfo takes it modulo this
        raise AddressUnavailable(host, port, f"ports go from 0 to {PORTS - 1}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise AddressUnavailable(host, port, _reason(error)) from error
    try:
        # Windows lets two servers share a port with this option, POSIX only one come back at once.
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressUnavailable(host, port, _reason(error)) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Write the URL at which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Uvicorn that reports when it is ready, and returns after a signal instead of dying of it."""

    def __init__(self, app: ASGIApp, *, on_ready: OnReady | None = None, grace: int = GRACE_SECONDS) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=grace,
        )
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self._on_ready is not None and self.started and sockets:
            self._on_ready(url_of(sockets[0]))

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


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "the port is in use"
    return getattr(error, "strerror", None) or str(error)
