"""Request targets in absolute form, as clients send them to proxies."""

import http.client
import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.testing_waits import wait_for

CHAT = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}).encode()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(create_app(ScriptedEngine(), allowed_hosts=["box.example"])) as url:
        yield url


def asked(
    url: str, target: str, host: str = "localhost", method: str = "GET", body: bytes = b""
) -> tuple[int, bytes]:
    address = httpx.URL(url)
    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((address.host, address.port or 80), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    "origin", ["http://localhost", "http://127.0.0.1:8080", "HTTPS://LocalHost:1", "http://box.example"]
)
def test_what_is_asked_for_with_its_host_is_what_is_asked_for_without(url: str, origin: str) -> None:
    for path in ("/v1/models", "/v1/models/demo", "/v1/mod%65ls", "/health", "/health?why=http://x/y"):
        expected = asked(url, path)
        assert asked(url, origin + path) == expected and expected[0] == 200
    assert asked(url, f"{origin}/v1/chat/completions", method="POST", body=CHAT)[0] == 200
    assert asked(url, origin)[1] == asked(url, "/")[1]


@pytest.mark.parametrize(("target", "seen"), [("/v1/no", "/v1/no"), ("/api/no", "/api/no")])
def test_what_is_not_there_is_told_in_the_form_of_its_api(url: str, target: str, seen: str) -> None:
    status, answer = asked(url, f"http://localhost{target}")
    assert status == 404 and answer == asked(url, target)[1]
    assert f"There is no GET {seen} here." in answer.decode()


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://evil.example", "localhost", 403),
        ("http://evil.example:8080", "127.0.0.1", 403),
        ("http://user@localhost", "localhost", 403),
        ("http://localhost:x", "localhost", 403),
        ("http://localhost", "evil.example", 200),  # RFC 9112 has the Host ignored then
        ("http://", "evil.example", 404),
        ("http://", "localhost", 404),
    ],
)
def test_the_host_of_the_target_is_the_one_that_must_be_allowed(
    url: str, origin: str, host: str, status: int
) -> None:
    assert asked(url, f"{origin}/v1/models", host)[0] == status


def test_paths_that_only_look_like_it_are_paths(url: str) -> None:
    for path in ("/http://localhost/v1/models", "ftp://localhost/v1/models", "localhost/v1/models"):
        assert asked(url, path)[0] == 404


def test_the_log_has_the_path(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rase_api.access"):
        asked(url, "http://localhost/v1/models")
        wait_for(lambda: "path=/v1/models " in caplog.text)  # it is written behind the answer
