"""Nulls: they ask for nothing, also where they are for what another of OpenAI's routes does."""

import httpx
import pytest
from rase_api.errors import UnknownParameter
from rase_api.parameters import Body
from rase_api.schemas.anthropic import MessagesRequest
from rase_api.schemas.embeddings import EmbeddingsRequest
from rase_api.schemas.ollama import OllamaGenerate
from rase_api.schemas.openai import ChatRequest, CompletionRequest
from rase_api.schemas.responses import ResponsesRequest

USER = {"role": "user", "content": "Hi"}
BODIES: dict[type[Body], dict[str, object]] = {
    ChatRequest: {"model": "demo", "messages": [USER]},
    CompletionRequest: {"model": "demo", "prompt": "Hi"},
    ResponsesRequest: {"model": "demo", "input": "Hi"},
    EmbeddingsRequest: {"model": "demo", "input": "Hi"},
}
PATHS: dict[str, type[Body]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/chat/completions/input_tokens": ChatRequest,
}


def foreign(body: type[Body]) -> set[str]:
    """Return what the other routes know, and this one does not."""
    return {name for other in BODIES for name in other.model_fields} - body.model_fields.keys()


@pytest.mark.parametrize("body", BODIES)
def test_what_another_route_knows_may_be_null(body: type[Body]) -> None:
    nulls = dict.fromkeys(foreign(body))
    assert body.parse(BODIES[body] | nulls) == body.parse(BODIES[body])


@pytest.mark.parametrize("body", BODIES)
def test_what_another_route_knows_is_unknown_with_any_other_value(body: type[Body]) -> None:
    for name in foreign(body):
        with pytest.raises(UnknownParameter, match=f"Unknown parameter: '{name}'"):
            body.parse(BODIES[body] | {name: False})


@pytest.mark.parametrize("body", BODIES)
def test_what_no_route_knows_is_unknown_also_as_null(body: type[Body]) -> None:
    with pytest.raises(UnknownParameter, match="Unknown parameter: 'ecko'"):
        body.parse(BODIES[body] | {"ecko": None, "echo": None})


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (MessagesRequest, {"model": "demo", "max_tokens": 5, "messages": [USER]}),
        (OllamaGenerate, {"model": "demo", "prompt": "Hi"}),
    ],
)
def test_other_apis_do_not_know_of_them(body: type[Body], given: dict[str, object]) -> None:
    with pytest.raises(UnknownParameter, match="'best_of'"):
        body.parse(given | {"best_of": None})


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_is_written_for_all_routes_is_answered_by_each(client: httpx.Client, path: str) -> None:
    own = BODIES[PATHS[path]]
    every = dict.fromkeys(name for other in BODIES for name in other.model_fields)
    assert client.post(path, json=every | own).status_code == 200
