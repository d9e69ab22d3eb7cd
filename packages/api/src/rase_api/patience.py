"""How long a client is waited for that keeps a connection: until the head of its request, until it reads on.

Bodies are waited for where they are read, but for what is left of one whose request has its answer, and idle
connections are uvicorn's own affair.
"""

import asyncio

import h11

from rase_api.untaken import untaken_bytes

SECONDS = 60.0


class Patience(asyncio.Protocol):
    """The part of a protocol over h11 that ends connections whose clients send no head, or do not read.

    What is left of a body whose request has its answer, and which nobody reads, has as much time as a head.
    """

    seconds = SECONDS
    conn: h11.Connection
    transport: asyncio.Transport
    _awaited: type | None = None
    _sender: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a first head."""
        super().connection_made(transport)
        self._await_sender()

    def data_received(self, data: bytes) -> None:
        """Take what has come; its time counts from its first byte, however many follow."""
        super().data_received(data)
        self._await_sender()

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
        self._forget_sender()
        self._forget_reader()

    def _await_sender(self) -> None:
        """Wait for what the client is sending; only the next thing has new time."""
        awaited = self._due()
        if awaited is not self._awaited:
            self._forget_sender()
            self._awaited = awaited
        if awaited is not None and self._sender is None:
            self._sender = asyncio.get_running_loop().call_later(self.seconds, self._end_sender)

    def _due(self) -> type | None:
        """Return the state of a client that owes a head, or a rest of a body that nobody reads."""
        theirs = self.conn.their_state
        is_unread = theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE
        return theirs if theirs is h11.IDLE or is_unread else None

    def _end_sender(self) -> None:
        self._sender = None
        if self._due() is self._awaited:
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

    def _forget_sender(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            self._sender = None

    def _forget_reader(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None


def patient(protocol: type[asyncio.Protocol], seconds: float) -> type[asyncio.Protocol]:
    """Derive from uvicorn's protocol over h11 one that waits for so long."""
    return type("PatientProtocol", (Patience, protocol), {"seconds": seconds})
