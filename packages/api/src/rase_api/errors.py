"""What clients are told when something fails: the only place of HTTP statuses.

    RequestError                    a request that cannot be served as it was sent
    ├── InvalidJson
    ├── UnsupportedMediaType
    ├── BodyTooLarge
    ├── MissingParameter
    ├── UnknownParameter
    ├── UnsupportedParameter
    ├── InvalidType
    ├── InvalidValue
    ├── UnknownPath
    └── MethodNotAllowed
    AddressUnavailable              the server cannot listen where it was told to

The engine's own errors are in `rase_core.errors`. `FAULTS` says for each class what goes over the wire.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from rase_core.errors import (
    BackendUnavailable,
    Cancelled,
    ContextOverflow,
    EngineError,
    IntegrityMismatch,
    InvalidConversation,
    InvalidGenerationConfig,
    InvalidManifest,
    InvalidModelId,
    ModelFileError,
    ModelFileNotFound,
    ModelNotFound,
    TemplateError,
    TokenizerError,
    UnencodableText,
)
from starlette.responses import JSONResponse

logger = logging.getLogger(__name__)

LONGEST_MESSAGE = 1000


class RequestError(EngineError):
    """A request cannot be served as it was sent; `param` names the part of the body that is at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class InvalidJson(RequestError):
    """A body is not one JSON object in UTF-8."""


class UnsupportedMediaType(RequestError):
    """A body is not declared as JSON."""


class BodyTooLarge(RequestError):
    """A body is longer than the server reads."""


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


class UnknownPath(RequestError):
    """No route has this path."""


class MethodNotAllowed(RequestError):
    """A path exists, but not for this method."""


class AddressUnavailable(EngineError):
    """The server cannot listen on an address: where, and why not."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}:{port}: {reason}", "stop what is using it, or choose another"
        )
        self.host, self.port, self.reason = host, port, reason


@dataclass(frozen=True, slots=True)
class Fault:
    """The status, `type` and `code` that an error class has on the wire."""

    status: int
    type: str
    code: str


REQUEST = "invalid_request_error"
SERVER = "server_error"

FAULTS: Mapping[type[BaseException], Fault] = {
    InvalidJson: Fault(400, REQUEST, "invalid_json"),
    MissingParameter: Fault(400, REQUEST, "missing_required_parameter"),
    UnknownParameter: Fault(400, REQUEST, "unknown_parameter"),
    UnsupportedParameter: Fault(400, REQUEST, "unsupported_parameter"),
    InvalidType: Fault(400, REQUEST, "invalid_type"),
    InvalidValue: Fault(400, REQUEST, "invalid_value"),
    InvalidGenerationConfig: Fault(400, REQUEST, "invalid_value"),
    ContextOverflow: Fault(400, REQUEST, "context_length_exceeded"),
    TemplateError: Fault(400, REQUEST, "chat_template_error"),
    UnencodableText: Fault(400, REQUEST, "invalid_value"),
    InvalidConversation: Fault(400, REQUEST, "invalid_value"),
    InvalidModelId: Fault(404, REQUEST, "model_not_found"),
    ModelNotFound: Fault(404, REQUEST, "model_not_found"),
    UnknownPath: Fault(404, REQUEST, "unknown_url"),
    MethodNotAllowed: Fault(405, REQUEST, "method_not_supported"),
    BodyTooLarge: Fault(413, REQUEST, "request_too_large"),
    UnsupportedMediaType: Fault(415, REQUEST, "unsupported_media_type"),
    ModelFileError: Fault(500, SERVER, "model_unusable"),
    ModelFileNotFound: Fault(500, SERVER, "model_file_not_found"),
    TokenizerError: Fault(500, SERVER, "tokenizer_error"),
    IntegrityMismatch: Fault(500, SERVER, "integrity_mismatch"),
    InvalidManifest: Fault(500, SERVER, "invalid_manifest"),
    EngineError: Fault(500, SERVER, "engine_error"),
    Cancelled: Fault(503, SERVER, "cancelled"),
    BackendUnavailable: Fault(503, SERVER, "backend_unavailable"),
    Exception: Fault(500, SERVER, "internal_error"),
}

NO_NAMES: Mapping[str, str] = {}


def fault_of(error: BaseException) -> Fault:
    """Find the nearest of an error's classes that the table names."""
    return next((FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS), FAULTS[Exception])


def envelope(error: BaseException, names: Mapping[str, str] = NO_NAMES) -> dict[str, object]:
    """Write an error as OpenAI's envelope.

    `names` gives the request's own name for a generation parameter and for `prompt`, where they differ.
    An error that is not one of rase's says nothing of itself: its text may hold what a client should not see.
    """
    fault = fault_of(error)
    return {
        "error": {
            "message": clipped(_message(error, names)),
            "type": fault.type,
            "param": _param(error, names),
            "code": fault.code,
        }
    }


def clipped(text: str) -> str:
    """Cut a text that repeats a client's input to a length fit for a message."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def _message(error: BaseException, names: Mapping[str, str]) -> str:
    match error:
        case ContextOverflow():
            # Clients recognise this error by OpenAI's wording.
            return (
                f"This model's maximum context length is {error.limit} tokens. However, your "
                f"{names.get('prompt', 'prompt')} resulted in {error.tokens} tokens. "
                f"Please reduce the length of the {names.get('prompt', 'prompt')}."
            )
        case InvalidGenerationConfig():
            value = clipped(repr(error.value))
            return f"Invalid value for '{_param(error, names)}': expected {error.expected}, but got {value}."
        case EngineError():
            return error.message
        case _:
            return "The server failed to process the request."


def _param(error: BaseException, names: Mapping[str, str]) -> str | None:
    match error:
        case RequestError():
            return error.param
        case InvalidGenerationConfig():
            return names.get(error.parameter, error.parameter)
        case InvalidConversation(index=int(index)):
            return f"{names.get('prompt', 'prompt')}[{index}]"
        case ContextOverflow() | TemplateError() | UnencodableText():
            return names.get("prompt", "prompt")
        case ModelNotFound() | InvalidModelId():
            return "model"
        case _:
            return None


def report(error: BaseException) -> None:
    """Log what is the server's own fault, a bug with its traceback; a client reads of its own."""
    if fault_of(error).status < FAULTS[Exception].status or isinstance(error, Cancelled):
        return
    if isinstance(error, EngineError):
        logger.error("%s%s", error.message, f" ({error.advice})" if error.advice else "")
    else:
        logger.error("a request failed", exc_info=error)


def error_response(error: BaseException, names: Mapping[str, str] = NO_NAMES) -> JSONResponse:
    """Make the response that tells a client about an error."""
    report(error)
    return JSONResponse(envelope(error, names), status_code=fault_of(error).status)
