"""What goes over the wire for each class of error: the only place of HTTP statuses."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rase_core.errors import (
    BackendUnavailable,
    Cancelled,
    ConstraintFailure,
    ContextOverflow,
    EngineError,
    IntegrityMismatch,
    InvalidAlias,
    InvalidConversation,
    InvalidManifest,
    InvalidModelId,
    InvalidParameter,
    MemoryTaken,
    ModelFileError,
    ModelFileNotFound,
    ModelNotFound,
    ModelTooLarge,
    QueueFull,
    RequestTimeout,
    ShuttingDown,
    StoreError,
    TemplateError,
    TokenizerError,
    TooManyOpenFiles,
    UnencodableText,
    UnenforceableFormat,
)
from rase_core.open_files import is_full
from rase_models.constraints.response_format import TOOLS

from rase_api.errors import (
    BodyTimeout,
    BodyTooLarge,
    HostNotAllowed,
    InvalidApiKey,
    InvalidJson,
    InvalidType,
    InvalidValue,
    MethodNotAllowed,
    MissingParameter,
    NotReady,
    RequestError,
    UnknownParameter,
    UnknownPath,
    UnsupportedMediaType,
    UnsupportedParameter,
    clipped,
)

logger = logging.getLogger(__name__)

Names = Mapping[str, str]
"""Field of GenerationConfig, or `prompt` -> what the request calls it, where that differs."""

NO_NAMES: Names = {}

_OWN_KINDS = ("grammar", "regex", "choice")
"""The kinds of formats that are parameters of the same name, where the request itself is too wrong to say."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The status, headers, and `type` and `code` in OpenAI's words that an error class has."""

    status: int
    type: str
    code: str
    headers: Mapping[str, str] = field(default_factory=dict)


REQUEST = "invalid_request_error"
SERVER = "server_error"
LATER = {"Retry-After": "1"}

FAULTS: Mapping[type[BaseException], Fault] = {
    InvalidJson: Fault(400, REQUEST, "invalid_json"),
    MissingParameter: Fault(400, REQUEST, "missing_required_parameter"),
    UnknownParameter: Fault(400, REQUEST, "unknown_parameter"),
    UnsupportedParameter: Fault(400, REQUEST, "unsupported_parameter"),
    RequestError: Fault(400, REQUEST, "invalid_request"),
    InvalidType: Fault(400, REQUEST, "invalid_type"),
    InvalidValue: Fault(400, REQUEST, "invalid_value"),
    InvalidParameter: Fault(400, REQUEST, "invalid_value"),
    ContextOverflow: Fault(400, REQUEST, "context_length_exceeded"),
    TemplateError: Fault(400, REQUEST, "chat_template_error"),
    UnencodableText: Fault(400, REQUEST, "invalid_value"),
    UnenforceableFormat: Fault(400, REQUEST, "unenforceable_format"),
    ConstraintFailure: Fault(400, REQUEST, "unenforceable_format"),
    InvalidConversation: Fault(400, REQUEST, "invalid_value"),
    InvalidApiKey: Fault(401, REQUEST, "invalid_api_key", {"WWW-Authenticate": "Bearer"}),
    HostNotAllowed: Fault(403, REQUEST, "host_not_allowed"),
    InvalidModelId: Fault(404, REQUEST, "model_not_found"),
    ModelNotFound: Fault(404, REQUEST, "model_not_found"),
    InvalidAlias: Fault(404, REQUEST, "model_not_found"),
    ModelTooLarge: Fault(400, REQUEST, "model_too_large"),
    UnknownPath: Fault(404, REQUEST, "unknown_url"),
    MethodNotAllowed: Fault(405, REQUEST, "method_not_supported"),
    BodyTimeout: Fault(408, REQUEST, "body_timeout", {"Connection": "close"}),
    BodyTooLarge: Fault(413, REQUEST, "request_too_large"),
    UnsupportedMediaType: Fault(415, REQUEST, "unsupported_media_type"),
    QueueFull: Fault(429, "rate_limit_error", "queue_full", LATER),
    ModelFileError: Fault(500, SERVER, "model_unusable"),
    ModelFileNotFound: Fault(500, SERVER, "model_file_not_found"),
    TokenizerError: Fault(500, SERVER, "tokenizer_error"),
    IntegrityMismatch: Fault(500, SERVER, "integrity_mismatch"),
    InvalidManifest: Fault(500, SERVER, "invalid_manifest"),
    StoreError: Fault(500, SERVER, "store_error"),
    EngineError: Fault(500, SERVER, "engine_error"),
    Cancelled: Fault(503, SERVER, "cancelled"),
    BackendUnavailable: Fault(503, SERVER, "backend_unavailable"),
    MemoryTaken: Fault(503, SERVER, "memory_taken", LATER),
    TooManyOpenFiles: Fault(503, SERVER, "too_many_open_files", LATER),
    NotReady: Fault(503, SERVER, "not_ready", LATER),
    ShuttingDown: Fault(503, SERVER, "shutting_down", LATER),
    RequestTimeout: Fault(504, SERVER, "request_timeout"),
    Exception: Fault(500, SERVER, "internal_error"),
}

BELONGS_TO_CLIENTS = (Cancelled, NotReady, RequestTimeout, ShuttingDown)


def fault_of(error: BaseException) -> Fault:
    """Find the nearest of an error's classes that the table names."""
    kinds = TooManyOpenFiles.__mro__ if is_full(error) else type(error).__mro__
    return next((FAULTS[kind] for kind in kinds if kind in FAULTS), FAULTS[Exception])


def message_of(error: BaseException, names: Names = NO_NAMES) -> str:
    """Say what a client may read of an error; one that is not rase's says nothing of itself."""
    return clipped(_message(error, names))


def param_of(error: BaseException, names: Names = NO_NAMES) -> str | None:
    """Name the part of the request that is at fault."""
    match error:
        case RequestError():
            return error.param
        case InvalidParameter():
            return names.get(error.parameter, error.parameter)
        case InvalidConversation(index=int(index)):
            return f"{names.get('prompt', 'prompt')}[{index}]"
        case UnenforceableFormat() if error.kind == TOOLS:
            return TOOLS
        case UnenforceableFormat(kind=str(kind)) if kind in _OWN_KINDS and "response_format" not in names:
            return kind
        case UnenforceableFormat() | ConstraintFailure():
            return names.get("response_format", "response_format")
        case ContextOverflow() | InvalidConversation() | TemplateError() | UnencodableText():
            return names.get("prompt", "prompt")
        case ModelNotFound() | InvalidModelId() | InvalidAlias() | ModelTooLarge():
            return "model"
        case _:
            return None


@contextmanager
def in_words_of(names: Names) -> Iterator[None]:
    """Let an InvalidParameter become an InvalidValue that names what the request names so."""
    try:
        yield
    except InvalidParameter as error:
        raise InvalidValue(message_of(error, names), param_of(error, names)) from error


def report(error: BaseException) -> None:
    """Log what is the server's own fault, a bug with its traceback; a client reads of its own."""
    if fault_of(error).status < FAULTS[Exception].status or isinstance(error, BELONGS_TO_CLIENTS):
        return
    if isinstance(error, EngineError):
        logger.error("%s%s", error.message, f" ({error.advice})" if error.advice else "")
    else:
        logger.error("a request failed", exc_info=error)


def _message(error: BaseException, names: Names) -> str:
    match error:
        case ContextOverflow():
            # Clients recognise this error by OpenAI's wording.
            count = f"at least {error.tokens}" if error.is_least else f"{error.tokens}"
            return (
                f"This model's maximum context length is {error.limit} tokens. However, your "
                f"{names.get('prompt', 'prompt')} resulted in {count} tokens. "
                f"Please reduce the length of the {names.get('prompt', 'prompt')}."
            )
        case InvalidParameter():
            value = clipped(repr(error.value))
            return (
                f"Invalid value for '{param_of(error, names)}': expected {error.expected}, but got {value}."
            )
        case EngineError():
            return error.message
        case OSError() if is_full(error):
            return TooManyOpenFiles().message
        case _:
            return "The server failed to process the request."
