"""How a server is set up."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypedDict

from rase_api.errors import InvalidSetting

MAX_BODY_BYTES = 8 * 1024 * 1024
KEEP_ALIVE_SECONDS = 15.0
BODY_SECONDS = 60.0

_LISTS: Mapping[str, tuple[re.Pattern[str], str]] = MappingProxyType(
    {
        "api_keys": (
            re.compile(r"(?! )[^\x00-\x1f\x7f]+(?<! )"),
            "texts of one line, no spaces around them",
        ),
        "cors_origins": (
            re.compile(
                r"\*|null|(?!http://[^/]*:80$|https://[^/]*:443$)"
                r"[a-z][a-z0-9+.-]*://([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?"
            ),
            "origins as browsers send them, such as https://page.example or http://localhost:3000, in lower "
            "case, without a path or the usual port, or *",
        ),
        "allowed_hosts": (
            re.compile(r"\*|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?"),
            "names such as box.example, without scheme, port or spaces, or *; IP addresses are always served",
        ),
    }
)
"""The lists of texts: what each text is that can ever match, and in words."""


class Options(TypedDict, total=False):
    """The settings as keyword arguments; see Settings."""

    max_body_bytes: int
    api_keys: Sequence[str]
    cors_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    request_timeout: float | None
    keep_alive_seconds: float
    body_seconds: float
    json_log: bool
    lenient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator decides.

    max_body_bytes: longer bodies are refused.
    api_keys: a request must bring one of them; none lets everybody in.
    cors_origins: the web pages that may call the server, by origin; `*` is all.
    allowed_hosts: the names by which the server may be asked, besides localhost and IP addresses; `*` is all,
        and so is none when there are keys.
    request_timeout: the most seconds that an answer may take, None for no end.
    keep_alive_seconds: how long a stream is silent before it says that it lives.
    body_seconds: how long the next bytes of a body are waited for: who sends no more keeps a connection.
    json_log: whether the access log is JSON.
    lenient: whether parameters that are unknown or not supported are left out with a warning, not refused.

    Raises InvalidSetting.
    """

    max_body_bytes: int = MAX_BODY_BYTES
    api_keys: Sequence[str] = ()
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    request_timeout: float | None = None
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    body_seconds: float = BODY_SECONDS
    json_log: bool = False
    lenient: bool = False

    def __post_init__(self) -> None:
        for name, (shape, expected) in _LISTS.items():
            values = getattr(self, name)
            if isinstance(values, str):
                raise InvalidSetting(name, "a list of texts")
            for value in values:
                if not shape.fullmatch(value):
                    raise InvalidSetting(name, expected, None if name == "api_keys" else value)
        for name, number in self._seconds().items():
            if not number > 0:
                raise InvalidSetting(name, "more than 0 seconds")
        if self.max_body_bytes < 1:
            raise InvalidSetting("max_body_bytes", "at least 1 byte")

    def _seconds(self) -> dict[str, float]:
        timeout = {} if self.request_timeout is None else {"request_timeout": self.request_timeout}
        always = {"keep_alive_seconds": self.keep_alive_seconds, "body_seconds": self.body_seconds}
        return always | timeout
