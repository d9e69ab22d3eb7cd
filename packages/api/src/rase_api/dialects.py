"""How each API writes an error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.responses import JSONResponse

from rase_api.faults import NO_NAMES, Names, fault_of, message_of, param_of, report

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API whose clients expect errors in a form of their own."""

    envelope: Callable[[BaseException, Names], Json]

    def response(self, error: BaseException, names: Names = NO_NAMES) -> JSONResponse:
        """Make the response that tells a client about an error."""
        report(error)
        fault = fault_of(error)
        return JSONResponse(self.envelope(error, names), fault.status, dict(fault.headers))


def _openai(error: BaseException, names: Names) -> Json:
    fault = fault_of(error)
    return {
        "error": {
            "message": message_of(error, names),
            "type": fault.type,
            "param": param_of(error, names),
            "code": fault.code,
        }
    }


ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _anthropic(error: BaseException, names: Names) -> Json:
    kind = ANTHROPIC_TYPES[fault_of(error).status]
    return {"type": "error", "error": {"type": kind, "message": message_of(error, names)}}


def _ollama(error: BaseException, names: Names) -> Json:
    return {"error": message_of(error, names)}


OPENAI = Dialect(_openai)
ANTHROPIC = Dialect(_anthropic)
OLLAMA = Dialect(_ollama)

PREFIXES: Mapping[str, Dialect] = {"/api/": OLLAMA, "/v1/messages": ANTHROPIC}


def dialect_at(path: str) -> Dialect:
    """Find the API that a path belongs to, also one that does not exist."""
    return next((dialect for prefix, dialect in PREFIXES.items() if path.startswith(prefix)), OPENAI)
