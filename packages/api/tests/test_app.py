import httpx
import pytest
from fastapi import FastAPI, HTTPException
from rase_api import create_app, router
from rase_api.testing import ScriptedEngine, served
from rase_core.manifest import ModelManifest

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}


def code_of(response: httpx.Response) -> str:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["code"])


def test_health_says_that_the_server_lives(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.head("/health").status_code == 200


def test_models_are_listed_in_openais_form(client: httpx.Client) -> None:
    listing = client.get("/v1/models").json()
    assert listing["object"] == "list"
    assert [model["id"] for model in listing["data"]] == ["demo", "other"]
    assert listing["data"][0] == client.get("/v1/models/demo").json()
    assert set(listing["data"][0]) == {"id", "object", "created", "owned_by"}


@pytest.mark.parametrize("model", ["nope", "openai/gpt-4o", "..", "%00", "%ff", "a%20b"])
def test_a_model_that_is_not_there_is_not_found(client: httpx.Client, model: str) -> None:
    response = client.get(f"/v1/models/{model}")
    assert response.status_code == 404
    assert code_of(response) in ("model_not_found", "unknown_url")


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/models/", "/doc", "/v1/chat/completions/"])
def test_an_unknown_path_is_told_in_the_envelope(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert code_of(response) in ("unknown_url", "model_not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/chat/completions"), ("DELETE", "/v1/models"), ("PUT", "/health")]
)
def test_a_wrong_method_is_told_which_are_right(client: httpx.Client, method: str, path: str) -> None:
    response = client.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"]
    assert code_of(response) == "method_not_supported"


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded", "x" * 5000])
def test_a_body_must_be_declared_as_json(client: httpx.Client, media_type: str | None) -> None:
    headers = {} if media_type is None else {"content-type": media_type}
    response = client.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert response.status_code == 415
    assert code_of(response) == "unsupported_media_type"


def test_a_charset_does_no_harm(client: httpx.Client) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    response = client.post("/v1/chat/completions", content=b"{}", headers=headers)
    assert response.status_code == 400
    assert code_of(response) == "missing_required_parameter"


def test_broken_json_is_told_in_the_envelope(client: httpx.Client) -> None:
    response = client.post("/v1/completions", content=b"{", headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert code_of(response) == "invalid_json"


@pytest.mark.parametrize("size", [1001, 5000, 100_000])
def test_a_body_beyond_the_limit_is_refused(size: int) -> None:
    with served(create_app(ScriptedEngine(), max_body_bytes=1000)) as url:
        for content in (b" " * size, iter([b" " * size])):
            response = httpx.post(
                f"{url}/v1/completions", content=content, headers={"content-type": "application/json"}
            )
            assert response.status_code == 413
            assert code_of(response) == "request_too_large"
        assert httpx.get(f"{url}/health").status_code == 200


def test_no_other_origin_is_let_in(client: httpx.Client) -> None:
    response = client.get("/v1/models", headers={"origin": "https://example.com"})
    assert "access-control-allow-origin" not in response.headers


def test_an_unexpected_failure_is_a_plain_500() -> None:
    class Broken(ScriptedEngine):
        def inspect(self, model_id: str) -> ModelManifest:
            raise ZeroDivisionError("secret")

    with served(create_app(Broken())) as url:
        response = httpx.post(f"{url}/v1/chat/completions", json=CHAT)
        assert response.status_code == 500
        assert code_of(response) == "internal_error"
        assert "secret" not in response.text
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_bug_of_a_hosts_own_route_is_a_plain_500_too() -> None:
    app = create_app(ScriptedEngine())

    @app.get("/own")
    async def own() -> None:
        raise ZeroDivisionError("secret")

    with served(app) as url:
        response = httpx.get(f"{url}/own")
    assert response.status_code == 500
    assert code_of(response) == "internal_error"


@pytest.mark.parametrize(("status", "kind"), [(403, "invalid_request_error"), (503, "server_error")])
def test_a_hosts_own_refusal_keeps_its_status_and_words(status: int, kind: str) -> None:
    app = create_app(ScriptedEngine())

    @app.get("/own")
    async def own() -> None:
        raise HTTPException(status, "not today", {"Retry-After": "60"})

    with served(app) as url:
        response = httpx.get(f"{url}/own")
        wrong = httpx.post(f"{url}/own")
    assert (response.status_code, response.headers["retry-after"]) == (status, "60")
    assert (response.json()["error"]["message"], response.json()["error"]["type"]) == ("not today", kind)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")


def test_a_router_serves_inside_another_application() -> None:
    host = FastAPI()
    host.include_router(router(ScriptedEngine()), prefix="/llm")

    @host.get("/own")
    async def own() -> str:
        return "mine"

    with served(host) as url:
        assert httpx.get(f"{url}/own").json() == "mine"
        answer = httpx.post(f"{url}/llm/v1/chat/completions", json=CHAT).json()
        assert answer["choices"][0]["message"]["content"] == "Paris."
        refused = httpx.post(f"{url}/llm/v1/chat/completions", json=CHAT | {"temperature": "hot"})
        assert code_of(refused) == "invalid_type"
