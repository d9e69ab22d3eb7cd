"""Who is let in: API keys, origins and hosts."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from rase_api import create_app, router
from rase_api.settings import Options
from rase_api.testing import ScriptedEngine, served

KEYS = ["first-key", "zweiter-schlüssel", "voilà"]
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
        exposed = refused.headers["access-control-expose-headers"].lower().split(", ")
        assert exposed == ["x-request-id", "request-id", "retry-after"]
        other = httpx.options(f"{url}/v1/models", headers={"origin": "https://evil.example"} | preflight)
        assert other.status_code == 400
        assert "access-control-allow-origin" not in other.headers


def test_without_keys_everybody_is_let_in(client: httpx.Client) -> None:
    assert client.get("/v1/models", headers={"authorization": "Bearer anything"}).status_code == 200


def asked_as(url: str, host: str, path: str = "/v1/models", headers: dict[str, str] | None = None) -> int:
    """Ask by a name, as a page does that has let its own name point here."""
    return httpx.get(f"{url}{path}", headers={"host": host} | (headers or {})).status_code


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "localhost",
        "LocalHost.:1",
        "[::1]:8080",
        "192.168.1.7",
        "[fe80::1]",
        "",
    ],
)
def test_addresses_and_localhost_are_hosts_of_every_server(client: httpx.Client, host: str) -> None:
    assert asked_as(str(client.base_url), host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "[::1].evil.example", "localhost:x"],
)
def test_a_page_that_lets_its_name_point_here_is_refused(client: httpx.Client, host: str) -> None:
    response = client.post("/v1/chat/completions", json=CHAT, headers={"host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_not_allowed"
    refused = client.post("/v1/messages", json=POSTS["/v1/messages"], headers={"host": host})
    assert refused.json()["error"]["type"] == "permission_error"
    assert asked_as(str(client.base_url), host, "/health") == 200


@pytest.mark.parametrize("path", GETS)
def test_nothing_is_told_to_a_page_that_lets_its_name_point_here(client: httpx.Client, path: str) -> None:
    assert asked_as(str(client.base_url), "evil.example", path) == 403


def test_names_that_were_allowed_are_hosts_and_no_others() -> None:
    with served(create_app(ScriptedEngine(), allowed_hosts=["Box.example"])) as url:
        assert asked_as(url, "box.example:8080") == 200
        assert asked_as(url, "other.example") == 403
    with served(create_app(ScriptedEngine(), allowed_hosts=["*"])) as url:
        assert asked_as(url, "other.example") == 200


def test_with_keys_only_hosts_that_were_named_count() -> None:
    key = {"x-api-key": KEYS[0]}
    with served(create_app(ScriptedEngine(), api_keys=KEYS)) as url:
        assert asked_as(url, "box.example", headers=key) == 200
    with served(create_app(ScriptedEngine(), api_keys=KEYS, allowed_hosts=["box.example"])) as url:
        assert asked_as(url, "box.example", headers=key) == 200
        assert asked_as(url, "other.example", headers=key) == 403


def test_hosts_are_the_affair_of_an_application_with_a_router_unless_named() -> None:
    own: Options = {"allowed_hosts": ["box.example"]}
    for options, status in ((Options(), 200), (own, 403)):
        host = FastAPI()
        host.include_router(router(ScriptedEngine(), **options))
        with served(host) as url:
            assert asked_as(url, "other.example") == status
