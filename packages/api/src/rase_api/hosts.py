"""The names by which a server may be asked.

A page of another site can let its own name point at this machine (DNS rebinding), and then speaks to a local
server as to its own, whatever CORS says. What it cannot change is the name that the browser sends as Host.
"""

import ipaddress
import re
from collections.abc import Sequence

from starlette.requests import Request

from rase_api.errors import HostNotAllowed, clipped

ANY = "*"
LOCAL = "localhost"
HOST = re.compile(r"(?:\[(?P<literal>[^\]]*)\]|(?P<name>[^:]*))(?::\d*)?")


class AllowedHosts:
    """The hosts of a server: IP addresses, localhost, and these names; `*` is any name at all.

    A server that asks for keys is told nothing by a page that has none, so it needs no names.
    """

    def __init__(self, names: Sequence[str], *, has_keys: bool) -> None:
        self._names = {LOCAL, *(name.lower() for name in names)}
        self._is_open = ANY in names or (has_keys and not names)

    def check(self, request: Request) -> None:
        """Raise HostNotAllowed for a request that names another host; one that names none is no browser's."""
        if self._is_open:
            return
        for host in request.headers.getlist("host"):
            if host and not self._allows(host):
                raise HostNotAllowed(
                    f"Requests for the host {clipped(host)!r} are not served: allow it (allowed_hosts, "
                    "--allowed-host) if it is a name of this server, or ask for API keys."
                )

    def _allows(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        if found is None:
            return False
        if found["literal"] is not None:
            return _is_address(found["literal"])
        name = found["name"].lower().removesuffix(".")
        return name in self._names or _is_address(name)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
