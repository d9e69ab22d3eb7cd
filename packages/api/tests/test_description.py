"""GET /openapi.json."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from rase_api import create_app, router
from rase_api.description import BODIES
from rase_api.testing import ScriptedEngine, served


class Own(BaseModel):
    """A body of a route of the application's own."""

    name: str


METHODS = {"get", "post"}


@pytest.fixture(scope="module")
def description(client: httpx.Client) -> dict[str, Any]:
    """The description of a server."""
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (text for key, text in value.items() if key == "$ref")
        yield from (text for inner in value.values() for text in references(inner))
    if isinstance(value, list):
        yield from (text for inner in value for text in references(inner))


def test_every_route_is_described_and_every_body(description: dict[str, Any]) -> None:
    posts = {path for path, entry in description["paths"].items() if "post" in entry}
    assert posts == set(BODIES)
    assert {"/health", "/ready", "/props", "/metrics", "/v1/models", "/api/tags"} <= set(description["paths"])
    for entry in description["paths"].values():
        assert set(entry) <= METHODS
        assert all(set(operation["responses"]) == {"200", "default"} for operation in entry.values())
    identities = [
        operation["operationId"] for entry in description["paths"].values() for operation in entry.values()
    ]
    assert len(set(identities)) == len(identities)


def test_every_reference_leads_to_a_schema(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    found = set(references(description))
    assert found
    assert found <= {f"#/components/schemas/{name}" for name in schemas}
    assert all("$defs" not in json.dumps(schema) for schema in schemas.values())


def test_a_body_names_its_parameters_and_only_those(description: dict[str, Any]) -> None:
    chat = description["components"]["schemas"]["ChatRequest"]
    assert chat["required"] == ["model", "messages"]
    assert chat["additionalProperties"] is False
    assert {"temperature", "max_tokens", "stream"} <= set(chat["properties"])
    assert chat["properties"]["modalities"]["enum"] == [None, ["text"]]


def test_the_description_is_of_the_whole_application_and_needs_a_key() -> None:
    app = create_app(ScriptedEngine(), api_keys=["key"])

    @app.post("/own")
    async def own(body: Own) -> str:
        return body.name

    with served(app) as url:
        assert httpx.get(f"{url}/openapi.json").status_code == 401
        description = httpx.get(f"{url}/openapi.json", headers={"x-api-key": "key"}).json()
    assert "422" in description["paths"]["/own"]["post"]["responses"]
    assert "Own" in description["components"]["schemas"]
    assert set(references(description)) <= {
        f"#/components/schemas/{name}" for name in description["components"]["schemas"]
    }


def test_an_application_with_a_router_describes_itself() -> None:
    host = FastAPI()
    host.include_router(router(ScriptedEngine()), prefix="/llm")
    with served(host) as url:
        assert "/llm/v1/chat/completions" in httpx.get(f"{url}/openapi.json").json()["paths"]
        assert httpx.get(f"{url}/llm/openapi.json").status_code == 404


def test_values_that_are_equal_in_python_are_told_apart(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    found = {
        (name, parameter): value["enum"]
        for name, schema in schemas.items()
        for parameter, value in schema.get("properties", {}).items()
        if "enum" in value
    }
    assert found["CompletionRequest", "best_of"] == [None, 1]
    assert type(found["CompletionRequest", "best_of"][1]) is int
    assert found["ChatRequest", "add_generation_prompt"][1] is True
    assert found["OllamaGenerate", "truncate"][1] is False
