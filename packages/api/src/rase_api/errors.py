"""What a server can refuse or fail at, besides what the engine's own errors say.

    RequestError                    a request that cannot be served as it was sent
    ├── InvalidJson
    ├── UnsupportedMediaType
    ├── BodyTooLarge
    ├── BodyTimeout
    ├── MissingParameter
    ├── UnknownParameter
    ├── UnsupportedParameter
    ├── InvalidType
    ├── InvalidValue
    ├── InvalidApiKey
    ├── HostNotAllowed
    ├── UnknownPath
    └── MethodNotAllowed
    NotReady                        no model has been in memory yet
    AddressUnavailable              the server cannot listen where it was told to
    InvalidSetting                  the server cannot be set up as it was told to
    SeveralWorkers                  more than one process would serve the same models

The engine's own errors are in `rase_core.errors`. `faults` says for each class what goes over the wire.
"""

from rase_core.errors import EngineError
from rase_core.errors import RequestError as EngineRequestError

LONGEST_MESSAGE = 1000


class RequestError(EngineRequestError):
    """A request cannot be served as it was sent; `param` names the part of the body that is at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidJson(RequestError):
    """A body is not one JSON object in UTF-8."""


class UnsupportedMediaType(RequestError):
    """A body is not declared as JSON, or comes compressed."""


class BodyTooLarge(RequestError):
    """A body is longer than the server reads."""


class BodyTimeout(RequestError):
    """A client has begun a body and sends no more of it."""


class MissingParameter(RequestError):
    """A required parameter is absent."""


class UnknownParameter(RequestError):
    """A parameter has a name that means nothing here."""


class UnsupportedParameter(RequestError):
    """A known parameter asks for what this server does not do."""


class InvalidType(RequestError):
    """A parameter's value has the wrong JSON type."""


class InvalidValue(RequestError):
    """A parameter's value has the right type and cannot be used."""


class InvalidApiKey(RequestError):
    """A request has no key, or one that is not among the server's."""


class HostNotAllowed(RequestError):
    """A request is for a host by whose name this server is not asked."""


class UnknownPath(RequestError):
    """No route has this path."""


class MethodNotAllowed(RequestError):
    """A path exists, but not for this method."""


class AddressUnavailable(EngineError):
    """The server cannot listen on an address: where, and why not."""

    def __init__(self, host: str, port: int, reason: str, advice: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}", advice)
        self.host, self.port, self.reason = host, port, reason


class NotReady(EngineError):
    """No model is in memory yet, or not all that are to be before requests come."""

    def __init__(self, message: str = "no model is loaded yet: the first request to one loads it") -> None:
        super().__init__(message)


class InvalidSetting(EngineError):
    """The server cannot be set up like this: which setting, and what it has to be."""

    def __init__(self, setting: str, expected: str, value: str | None = None) -> None:
        found = "" if value is None else f"{clipped(value)!r}, "
        super().__init__(f"invalid {setting}: {found}expected {expected}")
        self.setting, self.expected = setting, expected


class SeveralWorkers(EngineError):
    """Several worker processes were asked for, each of which would hold every model and share nothing."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} worker processes were asked for, but one process must own a model: each would load all "
            "models again, and requests to different ones could not be computed together",
            "use one worker, which runs on all cores; see docs/scaling.md",
        )
        self.count = count


def clipped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Cut a text that repeats a client's input to a length fit for a message."""
    return text if len(text) <= longest else f"{text[:longest]}..."
