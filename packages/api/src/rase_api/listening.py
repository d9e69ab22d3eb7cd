"""The addresses at which a server listens."""

import contextlib
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from rase_api.errors import AddressUnavailable

BACKLOG = 256
PORTS = 2**16

ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
"""Why an address is none of this machine: localhost has one of IPv6 also where nothing speaks it."""

ADVICE: Mapping[int | None, str] = {
    errno.EADDRINUSE: "stop what is using it, or choose another",
    errno.EACCES: "choose a port of at least 1024",
}

Address = tuple[socket.AddressFamily, tuple[object, ...]]


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on every address that a host has on this machine, at one port; port 0 takes a free one.

    Raises AddressUnavailable saying why not.
    """
    if not 0 <= port < PORTS:  # or getaddrinfo takes it modulo this
        raise AddressUnavailable(host, port, f"ports go from 0 to {PORTS - 1}", "choose one of these")
    try:
        return _listen_on(_addresses(host, port))
    except (OSError, UnicodeError) as error:
        raise AddressUnavailable(host, port, _reason(error), _advice(error)) from error


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Write the URL at which a listening socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Tell whether only this machine reaches a listening socket."""
    host = str(listener.getsockname()[0])
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _addresses(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _listen_on(addresses: Sequence[Address]) -> list[socket.socket]:
    """Listen on those of the addresses that are here; raises the OSError of another, or of all."""
    listeners: list[socket.socket] = []
    failure: OSError | None = None
    with contextlib.ExitStack() as stack:
        for family, (host, port, *rest) in addresses:
            chosen = port or (listeners[0].getsockname()[1] if listeners else 0)
            try:
                listener = _listen_at(family, (host, chosen, *rest), is_alone=len(addresses) == 1)
            except OSError as error:
                # A port that is free at one address may be taken at the next, which is not asked for then.
                if error.errno not in ABSENT and (port or not listeners):
                    raise
                failure = error
            else:
                listeners.append(stack.enter_context(listener))
        if failure is not None and not listeners:
            raise failure
        stack.pop_all()
    return listeners


def _listen_at(family: socket.AddressFamily, address: tuple[object, ...], *, is_alone: bool) -> socket.socket:
    """Listen on one address; one of IPv6 that is not alone leaves IPv4 to the others."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # where otherwise another program may take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        elif os.name == "posix":  # where otherwise a server cannot come back at once
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not is_alone:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return "the port is in use"
    return getattr(error, "strerror", None) or str(error)


def _advice(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    return ADVICE.get(number, "choose an address or a name of this machine, such as 127.0.0.1")
