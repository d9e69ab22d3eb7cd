"""Bytes that are no HTTP."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rase_api import create_app
from rase_api.malformed import refusing
from rase_api.testing import ScriptedEngine, served

CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "stream": True}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

ASK = HEAD + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(ScriptedEngine())) as url:
        yield url


def exchange(url: str, *parts: bytes) -> bytes:
    """Send parts and return all that comes until the server hangs up, which it may do early."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), timeout=20) as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
        return received(connection)


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the other side hangs up."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return bytes(found)


class Written:
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        self.data, self.is_closed = b"", False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.is_closed = True


ANSWERING = {"response_complete": False, "more_body": False}


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"cycle": SimpleNamespace()},
        {"cycle": SimpleNamespace(response_complete=False)},
        {"cycle": SimpleNamespace(**ANSWERING)},
        {"cycle": SimpleNamespace(**ANSWERING), "flow": SimpleNamespace()},
    ],
)
def test_a_connection_ends_without_a_word_where_nobody_knows_what_is_being_answered(
    known: dict[str, object],
) -> None:
    class Other(asyncio.Protocol):
        transport = Written()

        def send_400_response(self, message: str) -> None:
            raise NotImplementedError

    protocol = refusing(type("Other", (Other,), known))()
    protocol.send_400_response("")  # type: ignore[attr-defined]
    assert (Other.transport.data, Other.transport.is_closed) == (b"", True)


@pytest.mark.parametrize(
    "data",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        HEAD + b"Content-Length: -5\r\n\r\n{}",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        HEAD + b"Bad Header: 1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_openai_s_form(url: str, data: bytes) -> None:
    head, _, body = exchange(url, data).partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "http/1.1 400 bad request"
    assert {"content-type: application/json", "connection: close", f"content-length: {len(body)}"} <= {*lines}
    assert json.loads(body) == {
        "error": {
            "message": "The request is not valid HTTP.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_request",
        }
    }


END = b"\r\n0\r\n\r\n"


def answered_before(rest: bytes, answers: int = 1) -> bytes:
    """Return all that a server sends whose client sends something more while its question is answered."""
    go_on = threading.Event()
    engine = ScriptedEngine("Paris.", before_token=lambda: go_on.wait(20))
    with served(create_app(engine)) as url:
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 80), timeout=20) as connection:
            connection.sendall(ASK)
            found = connection.recv(65536)
            connection.sendall(rest)
            time.sleep(0.2)  # the server reads it, or leaves it for later
            go_on.set()
            while found.count(END) < answers and (piece := connection.recv(65536)):
                found += piece
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            return found + received(connection)


@pytest.mark.parametrize("rest", [b"NONSENSE\r\n\r\n", b"\x16\x03\x01" + bytes(50), b"}\r\n", b"GET"])
def test_an_answer_under_way_comes_whole_whatever_follows_its_question(rest: bytes) -> None:
    found = answered_before(rest)
    assert found.startswith(b"HTTP/1.1 200 OK")
    answer, end, _ = found.partition(END)
    assert b"400 Bad Request" not in answer
    assert end
    assert answer.endswith(b"data: [DONE]\n\n")


def test_questions_are_answered_in_their_order_before_what_is_no_http() -> None:
    found = answered_before(ASK + b"NONSENSE\r\n\r\n", 2)
    assert found.count(b"HTTP/1.1 200 OK") == found.count(b"data: [DONE]") == 2
    assert b"400 Bad Request" not in found.rpartition(b"data: [DONE]")[0]


@settings(
    max_examples=60,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
@given(data=st.binary(min_size=1, max_size=200))
def test_no_bytes_on_the_wire_make_the_server_fail(url: str, data: bytes) -> None:
    exchange(url, data, b"\r\n\r\n")
    assert httpx.get(f"{url}/health").is_success
