"""Who is let in: API keys and origins."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from rase_api import create_app, router
from rase_api.testing import ScriptedEngine, served

KEYS = ["first-key", "zweiter-schlüssel"]
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
POSTS = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "demo", "prompt": "Hi"},
    "/v1/responses": {"model": "demo", "input": "Hi"},
    "/v1/messages": CHAT | {"max_tokens": 1},
    "/v1/embeddings": {"model": "demo", "input": "Hi"},
    "/api/chat": CHAT,
    "/generate": {"text": "Hi"},
    "/tokenize": {"content": "Hi"},
}
GETS = [
    "/v1/models",
    "/v1/models/demo",
    "/api/tags",
    "/api/ps",
    "/metrics",
    "/props",
    "/ready",
    "/model_info",
]
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def guarded() -> Iterator[httpx.Client]:
    """A client of a server with keys."""
    with served(create_app(ScriptedEngine(), api_keys=KEYS)) as url, httpx.Client(base_url=url) as client:
        yield client


@pytest.mark.parametrize("path", POSTS)
def test_nothing_is_answered_without_a_key(guarded: httpx.Client, path: str) -> None:
    response = guarded.post(path, json=POSTS[path])
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "API key" in response.text


@pytest.mark.parametrize("path", GETS)
def test_nothing_is_told_without_a_key(guarded: httpx.Client, path: str) -> None:
    assert guarded.get(path).status_code == 401
    assert guarded.get(path, headers={"x-api-key": KEYS[0]}).status_code in (200, 503)


def test_that_the_server_lives_is_no_secret(guarded: httpx.Client) -> None:
    assert guarded.get("/health").status_code == 200


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["Bearer {}", "bearer  {}"])
def test_each_key_opens_as_a_bearer_token(guarded: httpx.Client, key: str, form: str) -> None:
    headers = {b"authorization": form.format(key).encode()}
    assert guarded.post("/v1/chat/completions", json=CHAT, headers=headers).status_code == 200


@pytest.mark.parametrize("key", KEYS)
def test_each_key_opens_as_x_api_key(guarded: httpx.Client, key: str) -> None:
    response = guarded.post("/v1/messages", json=POSTS["/v1/messages"], headers={b"x-api-key": key.encode()})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Basic first-key"},
        {"authorization": "first-key"},
        {"x-api-key": "first-ke"},
        {"x-api-key": "first-key2"},
        {"x-api-key": ""},
    ],
)
def test_anything_else_is_refused_in_openais_form(guarded: httpx.Client, headers: dict[str, str]) -> None:
    response = guarded.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert "first-key" not in response.text


def test_other_apis_refuse_in_their_own_forms(guarded: httpx.Client) -> None:
    refused = guarded.post("/v1/messages", json=POSTS["/v1/messages"]).json()
    assert refused["error"]["type"] == "authentication_error"
    assert isinstance(guarded.post("/api/chat", json=CHAT).json()["error"], str)


def test_a_refused_request_is_not_read(guarded: httpx.Client) -> None:
    response = guarded.post("/v1/chat/completions", content=b"{", headers={"content-type": "text/plain"})
    assert response.status_code == 401


def test_keys_guard_inside_another_application() -> None:
    host = FastAPI()
    host.include_router(router(ScriptedEngine(), api_keys=KEYS), prefix="/llm")
    with served(host) as url:
        assert httpx.get(f"{url}/llm/v1/models").status_code == 401
        assert httpx.get(f"{url}/llm/health").status_code == 200


def test_an_origin_that_was_named_is_let_in_and_no_other() -> None:
    with served(create_app(ScriptedEngine(), cors_origins=[PAGE], api_keys=KEYS)) as url:
        preflight = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization",
        }
        asked = httpx.options(f"{url}/v1/chat/completions", headers={"origin": PAGE} | preflight)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == PAGE
        refused = httpx.get(f"{url}/v1/models", headers={"origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
        other = httpx.options(f"{url}/v1/models", headers={"origin": "https://evil.example"} | preflight)
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers


def test_without_keys_everybody_is_let_in(client: httpx.Client) -> None:
    assert client.get("/v1/models", headers={"authorization": "Bearer anything"}).status_code == 200
