"""No request body makes the server fail: a client's fault is told as one."""

import json

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rase_api.schemas import ChatRequest, CompletionRequest

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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


def bodies(schema: type[ChatRequest] | type[CompletionRequest], right: dict[str, st.SearchStrategy]):
    """Bodies that are right but for a few fields."""
    fields = st.dictionaries(
        st.sampled_from(sorted(schema.model_fields)) | st.text(max_size=5), values, max_size=3
    )
    return st.builds(lambda base, changes: base | changes, st.fixed_dictionaries(right), fields)


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


@SETTINGS
@given(
    body=st.binary(max_size=300)
    | st.text(max_size=100).map(str.encode)
    | values.map(json.dumps).map(str.encode)
)
def test_no_bytes_make_the_server_fail(client: httpx.Client, body: bytes) -> None:
    for path in ("chat/completions", "completions"):
        response = client.post(f"/v1/{path}", content=body, headers=JSON_HEADERS)
        assert response.status_code == 400, response.text
