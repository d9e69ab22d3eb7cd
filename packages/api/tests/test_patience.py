"""Clients that keep a connection and neither send nor read."""

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from rase_api import create_app
from rase_api.patience import patient
from rase_api.testing import ScriptedEngine, served
from rase_core.testing_waits import wait_for

PATIENCE = 0.5
CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}).encode()
LONG = json.dumps({"model": "demo", "prompt": "Hi", "stream": True, "max_tokens": 60_000}).encode()
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(ScriptedEngine()), PATIENCE) as url:
        yield url


def connected(url: str) -> socket.socket:
    address = httpx.URL(url)
    return socket.create_connection((address.host, address.port or 80), timeout=20)


ASK = HEAD % (b"/v1/chat/completions", len(CHAT)) + CHAT


@pytest.mark.parametrize(("before", "head"), [(b"", b""), (b"", b"G"), (b"", HEAD[:-2]), (ASK, b"G")])
def test_a_head_that_does_not_come_ends_its_connection(url: str, before: bytes, head: bytes) -> None:
    with connected(url) as connection:
        if before:
            connection.sendall(before)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert answer.status == 200 and answer.read()
        connection.sendall(head)
        started = time.monotonic()
        assert connection.recv(65536) == b""
    assert PATIENCE * 0.8 < time.monotonic() - started < 10


def test_a_head_that_comes_byte_by_byte_has_no_more_time(url: str) -> None:
    started = time.monotonic()
    with connected(url) as connection, contextlib.suppress(ConnectionError):
        for byte in HEAD:
            connection.sendall(bytes([byte]))
            time.sleep(PATIENCE / 5)
    assert time.monotonic() - started < PATIENCE * 8


def test_an_idle_connection_is_kept_for_the_next_request(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        for _ in range(2):
            assert client.get("/health").is_success
            connection = client.get("/health").extensions["network_stream"].get_extra_info("client_addr")
            time.sleep(PATIENCE * 2)
            after = client.get("/health").extensions["network_stream"].get_extra_info("client_addr")
            assert after == connection


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
def test_a_head_that_does_not_end_is_refused(url: str, size: int) -> None:
    with connected(url) as connection:
        found = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * size + b"\r\n\r\n")
            found = connection.recv(65536)
    assert found == b"" or found.startswith(b"HTTP/1.1 400 Bad Request")


@contextlib.contextmanager
def far_behind() -> Iterator[socket.socket]:
    """Yield a connection over which megabytes come that it has hardly any room for."""
    engine = ScriptedEngine("word " * 8000, context_length=100_000)
    with served(create_app(engine), PATIENCE) as url, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        address = httpx.URL(url)
        connection.connect((address.host, address.port))
        connection.sendall(HEAD % (b"/v1/completions", len(LONG)) + LONG)
        yield connection


def test_an_answer_that_nobody_reads_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with far_behind():
        wait_for(lambda: "outcome=cancelled" in caplog.text, 30)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what is in their queues")
def test_a_client_far_behind_that_reads_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """It takes far less in the time of patience than what the system must get rid of to take more."""
    caplog.set_level(logging.INFO)
    with far_behind() as connection:
        started = time.monotonic()
        while time.monotonic() - started < PATIENCE * 8:
            assert connection.recv(2000)
            time.sleep(0.1)
        assert "outcome=" not in caplog.text
        wait_for(lambda: "outcome=cancelled" in caplog.text, 30)


class Unread:
    """A connection with bytes that the other side has not read."""

    def __init__(self) -> None:
        self.size, self.is_aborted = 9, False

    def get_write_buffer_size(self) -> int:
        return self.size

    def get_extra_info(self, name: str) -> None:
        """It is no socket."""

    def abort(self) -> None:
        self.is_aborted = True


async def is_ended(steps: int) -> bool:
    """Read a byte now and then, so many times, and tell whether the connection was ended in this time."""
    transport = Unread()
    protocol = patient(type("Other", (asyncio.Protocol,), {"transport": transport}), 0.2)()
    protocol.pause_writing()
    for _ in range(12):
        await asyncio.sleep(0.05)
        transport.size -= steps > 0
        steps -= 1
    return transport.is_aborted


def test_who_reads_slowly_is_waited_for_and_who_stops_is_not() -> None:
    assert not asyncio.run(is_ended(12))
    assert asyncio.run(is_ended(3))
    assert asyncio.run(is_ended(0))
