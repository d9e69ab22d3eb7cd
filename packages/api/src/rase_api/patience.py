"""How long a client is waited for that keeps a connection: until the head of its request, until it reads on.

Bodies are waited for where they are read, and idle connections are uvicorn's own affair.
"""

import asyncio

import h11

from rase_api.untaken import untaken_bytes

SECONDS = 60.0


class Patience(asyncio.Protocol):
    """The part of a protocol over h11 that ends connections whose clients send no head, or do not read."""

    seconds = SECONDS
    conn: h11.Connection
    transport: asyncio.Transport
    _head: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what has come; the time of a head counts from its first byte, however many follow."""
        super().data_received(data)
        self._await_head()

    def pause_writing(self) -> None:
        """Wait for a client that reads more slowly than it is written to."""
        super().pause_writing()
        self._await_reader(self._unread())

    def resume_writing(self) -> None:
        """Wait no more: the client has read."""
        super().resume_writing()
        self._forget_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        super().connection_lost(exc)
        self._forget_head()
        self._forget_reader()

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head is None:
            self._head = asyncio.get_running_loop().call_later(self.seconds, self._end_head)

    def _end_head(self) -> None:
        self._head = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()

    def _await_reader(self, unread: int) -> None:
        self._forget_reader()
        self._reader = asyncio.get_running_loop().call_later(self.seconds, self._end_reader, unread)

    def _end_reader(self, before: int) -> None:
        """End the connection if nothing was read since; else wait on."""
        unread = self._unread()
        if unread < before:
            self._await_reader(unread)
        else:
            self.transport.abort()

    def _unread(self) -> int:
        return self.transport.get_write_buffer_size() + untaken_bytes(self.transport)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_reader(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


def patient(protocol: type[asyncio.Protocol], seconds: float) -> type[asyncio.Protocol]:
    """Derive from uvicorn's protocol over h11 one that waits for so long."""
    return type("PatientProtocol", (Patience, protocol), {"seconds": seconds})
