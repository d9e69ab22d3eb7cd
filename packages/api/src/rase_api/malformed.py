"""Answers to what is no HTTP, which reaches no route: in OpenAI's form, as to any other path."""

import asyncio
from http import HTTPStatus

from rase_api.dialects import OPENAI
from rase_api.errors import RequestError


def refusing(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Derive from one of uvicorn's protocols one that answers malformed requests in our own form."""
    return type("RefusingProtocol", (protocol,), {"send_400_response": _send_refusal})


def _send_refusal(protocol: asyncio.Protocol, message: str) -> None:
    """Take the place of uvicorn's method of this name."""
    transport = protocol.transport  # type: ignore[attr-defined]
    if not _is_answering(protocol):
        transport.write(_refusal())
    transport.close()


def _is_answering(protocol: asyncio.Protocol) -> bool:
    cycle = getattr(protocol, "cycle", None)
    return cycle is not None and cycle.response_started and not cycle.response_complete


def _refusal() -> bytes:
    response = OPENAI.response(RequestError("The request is not valid HTTP."))
    response.headers["Connection"] = "close"
    headers = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
    status = HTTPStatus(response.status_code)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), headers, response.body)
