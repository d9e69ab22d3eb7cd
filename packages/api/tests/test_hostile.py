"""No request body makes the server fail: a client's fault is told as one."""

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rase_api.parameters import Body
from rase_api.schemas.anthropic import CountRequest, MessagesRequest
from rase_api.schemas.ollama import OllamaChat, OllamaGenerate, ShowRequest
from rase_api.schemas.openai import ChatRequest, CompletionRequest
from rase_api.schemas.responses import ResponsesRequest
from rase_api.schemas.sglang import SglangRequest
from rase_api.schemas.tokens import DetokenizeRequest, TemplateRequest, TokenizeRequest

SETTINGS = settings(
    max_examples=150,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)
JSON_HEADERS = {"content-type": "application/json"}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**40, 10**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1e-320, 1e308, -1e308, 0.5])
    | st.text(max_size=20)
    | st.sampled_from(["", "\0", "demo", "user", "assistant", "text", "\ufffe", "😀", "1" * 50])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["role", "content", "type", "1"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant"]), "content": st.text(max_size=10) | values}
    ),
    max_size=3,
)


Fields = dict[str, st.SearchStrategy[object]]


def bodies(schema: type[Body], right: Fields) -> st.SearchStrategy[dict[str, object]]:
    """Bodies that are right but for a few fields."""
    fields = st.dictionaries(
        st.sampled_from(sorted(schema.model_fields)) | st.text(max_size=5), values, max_size=3
    )
    return st.builds(lambda base, changes: base | changes, st.fixed_dictionaries(right), fields)


MODEL: Fields = {"model": st.just("demo")}
CHATTING: Fields = MODEL | {"messages": messages}
OTHERS: dict[str, tuple[type[Body], Fields]] = {
    "/v1/messages": (MessagesRequest, CHATTING | {"max_tokens": st.integers(0, 3)}),
    "/v1/messages/count_tokens": (CountRequest, CHATTING),
    "/v1/responses": (ResponsesRequest, MODEL | {"input": st.text(max_size=5) | messages | values}),
    "/api/chat": (OllamaChat, CHATTING | {"options": st.just({"num_predict": 2}) | values}),
    "/api/generate": (OllamaGenerate, MODEL | {"prompt": st.text(max_size=5) | values}),
    "/api/show": (ShowRequest, MODEL),
    "/generate": (SglangRequest, MODEL | {"text": st.text(max_size=5) | values}),
    "/tokenize": (TokenizeRequest, MODEL | {"content": st.text(max_size=5)}),
    "/detokenize": (DetokenizeRequest, MODEL | {"tokens": st.lists(st.integers(0, 300)) | values}),
    "/apply-template": (TemplateRequest, CHATTING),
    "/v1/chat/completions/input_tokens": (ChatRequest, CHATTING),
}


@pytest.mark.parametrize("path", OTHERS)
@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_no_body_of_another_api_makes_the_server_fail(
    client: httpx.Client, path: str, data: st.DataObject
) -> None:
    schema, right = OTHERS[path]
    body = json.dumps(data.draw(bodies(schema, right)))
    response = client.post(path, content=body, headers=JSON_HEADERS)
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        assert 0 < len(message_of(response)) < 2500


def message_of(response: httpx.Response) -> str:
    error = response.json()["error"]
    return str(error if isinstance(error, str) else error["message"])


def check(response: httpx.Response) -> None:
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        assert 0 < len(error["message"]) < 2500
    elif response.headers["content-type"].startswith("text/event-stream"):
        assert response.text.endswith("data: [DONE]\n\n")


@SETTINGS
@given(
    body=bodies(
        ChatRequest,
        {
            "model": st.just("demo"),
            "messages": messages,
            "max_tokens": st.integers(0, 3),
            "stream": st.booleans(),
        },
    )
)
def test_no_chat_body_makes_the_server_fail(client: httpx.Client, body: dict[str, object]) -> None:
    body["max_tokens"] = body["max_tokens"] if body["max_tokens"] is not None else 1
    check(client.post("/v1/chat/completions", content=json.dumps(body), headers=JSON_HEADERS))


@SETTINGS
@given(
    body=bodies(
        CompletionRequest,
        {"model": st.just("demo"), "prompt": st.text(max_size=5) | values, "max_tokens": st.integers(0, 3)},
    )
)
def test_no_completion_body_makes_the_server_fail(client: httpx.Client, body: dict[str, object]) -> None:
    check(client.post("/v1/completions", content=json.dumps(body), headers=JSON_HEADERS))


@settings(SETTINGS, max_examples=40)  # of five requests each
@given(
    body=st.binary(max_size=300)
    | st.text(max_size=100).map(str.encode)
    | values.map(json.dumps).map(str.encode)
)
def test_no_bytes_make_the_server_fail(client: httpx.Client, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat", "/generate"):
        response = client.post(path, content=body, headers=JSON_HEADERS)
        assert response.status_code == 400, response.text
