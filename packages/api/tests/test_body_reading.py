"""Bodies on their way to the server: how they come, and what becomes of those that do not come whole."""

import gzip
import json
import logging
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served

PATIENCE = 0.4
CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}).encode()
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(ScriptedEngine(), body_seconds=PATIENCE)) as url:
        yield url


def connected(url: str) -> socket.socket:
    address = httpx.URL(url)
    return socket.create_connection((address.host, address.port or 80), timeout=20)


def received(connection: socket.socket) -> bytes:
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/messages", b"/api/chat", b"/tokenize"])
@pytest.mark.parametrize("part", [b"", CHAT[:10]])
def test_a_body_that_stops_coming_is_refused_and_its_connection_ends(
    url: str, path: bytes, part: bytes
) -> None:
    with connected(url) as connection:
        connection.sendall(HEAD % (path, len(CHAT)) + part)
        started = time.monotonic()
        answer = received(connection)
    assert PATIENCE * 0.8 < time.monotonic() - started < 10
    assert answer.startswith(b"HTTP/1.1 408 ") and b"connection: close" in answer.lower()
    assert b"No more of the body came for 0.4 seconds." in answer


def test_a_body_that_comes_slowly_is_taken(url: str) -> None:
    with connected(url) as connection:
        connection.sendall(
            HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % (b"/v1/chat/completions", len(CHAT))
        )
        for start in range(0, len(CHAT), 12):
            time.sleep(PATIENCE / 4)
            connection.sendall(CHAT[start : start + 12])
        assert received(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "gzip, identity"])
def test_encoded_bodies_are_refused_by_name(url: str, encoding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    response = httpx.post(f"{url}/v1/chat/completions", content=gzip.compress(CHAT), headers=headers)
    assert response.status_code == 415
    assert f"Content-Encoding {encoding!r}" in response.json()["error"]["message"]


def test_the_encoding_that_is_none_is_taken(url: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "Identity"}
    assert httpx.post(f"{url}/v1/chat/completions", content=CHAT, headers=headers).status_code == 200


def test_a_client_that_leaves_in_its_body_is_logged_as_gone(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "rase_api.access"):
        with connected(url) as connection:
            connection.sendall(HEAD % (b"/v1/chat/completions", len(CHAT)) + CHAT[:10])
            time.sleep(0.1)
        deadline = time.monotonic() + 10
        while "outcome=cancelled" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "status=499 outcome=cancelled" in caplog.text
