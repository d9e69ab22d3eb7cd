"""How much of what was sent the other side has not taken yet, beyond what the process itself keeps.

Linux tells the bytes in a socket's queue that are not acknowledged. The other side takes more when a packet
and a sixteenth of its own buffer are free: so much it has to read to be seen reading, 8 KB of the usual 128.
Elsewhere nothing is told: there it is seen when the system takes more of what the process keeps, which it may
do only when a third of its own queue, of megabytes, has gone.
"""

import socket
import struct
import sys
from asyncio import Transport

_INT = struct.Struct("i")


def untaken_bytes(transport: Transport) -> int:
    """Return the bytes in the system's queue for a connection, 0 where it does not tell."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    return 0 if connection is None else _queued(connection)


if sys.platform == "linux":
    from fcntl import ioctl
    from termios import TIOCOUTQ

    def _queued(connection: socket.socket) -> int:
        try:
            queued: int = _INT.unpack(ioctl(connection.fileno(), TIOCOUTQ, bytes(_INT.size)))[0]
        except (OSError, ValueError):  # it is closed meanwhile, or of a kind that has no queue
            return 0
        return queued

else:

    def _queued(connection: socket.socket) -> int:
        return 0
