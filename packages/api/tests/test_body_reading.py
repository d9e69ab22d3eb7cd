"""Bodies on their way to the server: how they come, and what becomes of those that do not come whole."""

import contextlib
import gzip
import http.client
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


LIMIT = 1000


@pytest.fixture(scope="module")
def tight() -> Iterator[str]:
    with served(create_app(ScriptedEngine(), max_body_bytes=LIMIT, api_keys=["key"]), PATIENCE) as url:
        yield url


POST = (
    b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nAuthorization: Bearer %s\r\n"
    b"Content-Length: %d\r\n"
)
JSON, WAITING = b"application/json", b"Expect: 100-continue\r\n"


def answered(connection: socket.socket) -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/messages", b"/api/chat", b"/tokenize"])
@pytest.mark.parametrize("size", [LIMIT + 1, 100 * LIMIT, 10**19])
def test_a_body_that_says_that_it_is_too_long_is_refused_before_it_comes(
    tight: str, path: bytes, size: int
) -> None:
    with connected(tight) as connection:
        started = time.monotonic()
        connection.sendall(POST % (path, JSON, b"key", size) + b"\r\n")
        assert answered(connection).status == 413
        assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("times", [2, 30, 3000])
def test_a_client_that_sends_all_of_such_a_body_hears_of_it_and_may_go_on(tight: str, times: int) -> None:
    with httpx.Client(base_url=tight, headers={"Authorization": "Bearer key"}, timeout=20) as client:
        headers = {"Content-Type": "application/json"}
        for _ in range(2):
            refused = client.post("/v1/completions", content=b" " * LIMIT * times, headers=headers)
            assert refused.status_code == 413
        assert client.get("/v1/models").status_code == 200


@pytest.mark.parametrize(
    ("path", "kind", "key", "size", "status"),
    [
        (b"/v1/completions", JSON, b"key", LIMIT + 1, 413),
        (b"/v1/completions", JSON, b"other", LIMIT, 401),
        (b"/v1/completions", b"text/plain", b"key", LIMIT, 415),
        (b"/v1/models", JSON, b"key", LIMIT, 405),
        (b"/nowhere", JSON, b"key", LIMIT, 404),
    ],
)
def test_a_client_that_asks_first_is_refused_without_being_told_to_go_on(
    tight: str, path: bytes, kind: bytes, key: bytes, size: int, status: int
) -> None:
    with connected(tight) as connection:
        connection.sendall(POST % (path, kind, key, size) + WAITING + b"\r\n")
        answer = received(connection)  # what would come next could be the body or another request
    assert answer.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in answer.lower()


def test_a_client_that_asks_first_is_told_to_go_on_with_a_body_that_is_wanted(tight: str) -> None:
    with connected(tight) as connection:
        connection.sendall(POST % (b"/v1/chat/completions", JSON, b"key", len(CHAT)) + WAITING + b"\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(CHAT)
        answer = answered(connection)
    assert answer.status == 200 and "close" not in answer.headers.get("connection", "")


@pytest.mark.parametrize(("key", "status"), [(b"other", 401), (b"key", 413)])
def test_the_rest_of_a_body_that_nobody_reads_has_no_end_of_time(tight: str, key: bytes, status: int) -> None:
    with connected(tight) as connection:
        connection.sendall(POST % (b"/v1/completions", JSON, key, 10**6) + b"\r\n")
        assert answered(connection).status == status
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < 20:
                connection.sendall(b" ")
                time.sleep(PATIENCE / 5)
    assert time.monotonic() - started < PATIENCE * 8
