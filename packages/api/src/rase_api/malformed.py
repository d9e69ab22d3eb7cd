"""Answers to what is no HTTP, which reaches no route: in OpenAI's form, as to any other path."""

import asyncio
from http import HTTPStatus

from rase_api.dialects import OPENAI
from rase_api.errors import RequestError


def refusing(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Derive from one of uvicorn's protocols one that answers malformed requests in our own form."""
    return type("RefusingProtocol", (protocol,), {"send_400_response": _send_refusal})


def _send_refusal(protocol: asyncio.Protocol, message: str) -> None:
    """Take the place of uvicorn's method of this name.

    Whole requests that came before are answered first; the connection ends with the last of their answers.
    What tells of those is uvicorn's own affair: where it is there no more, the connection ends at once, and
    with no word that might come in the middle of an answer.
    """
    try:
        cycle = protocol.cycle  # type: ignore[attr-defined]
        if cycle is None or cycle.response_complete:
            _refuse(protocol)
        elif cycle.more_body:  # what is no HTTP is a part of this request
            _refuse(protocol, is_answering=cycle.response_started)
        else:
            protocol.flow.pause_reading()  # type: ignore[attr-defined]
            cycle.keep_alive = False
    except AttributeError:
        _refuse(protocol, is_answering=True)


def _refuse(protocol: asyncio.Protocol, *, is_answering: bool = False) -> None:
    transport = protocol.transport  # type: ignore[attr-defined]
    if not is_answering:
        transport.write(_refusal())
    transport.close()


def _refusal() -> bytes:
    response = OPENAI.response(RequestError("The request is not valid HTTP."))
    response.headers["Connection"] = "close"
    headers = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
    status = HTTPStatus(response.status_code)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), headers, response.body)
