import json
from typing import Any

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.errors import BackendFailure

BODY = {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
LONG = [{"role": "user", "content": "x" * 118}]
URL = "/v1/messages"


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    blocks = response.text.split("\n\n")
    assert blocks.pop() == ""
    parsed = []
    for block in blocks:
        name, data = block.split("\n")
        parsed.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {parsed[-1]['type']}"
    return parsed


def refusal(response: httpx.Response, status: int, kind: str) -> str:
    assert response.status_code == status
    assert set(response.json()) == {"type", "error"}
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] == kind
    return str(response.json()["error"]["message"])


def test_an_answer_has_anthropics_shape(client: httpx.Client) -> None:
    response = client.post(URL, json=BODY, headers={"anthropic-version": "2023-06-01"})
    answer = response.json()
    assert answer.pop("id").startswith("msg_")
    assert response.headers["request-id"]
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": "demo",
        "content": [{"type": "text", "text": "Paris."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 8,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 6,
        },
    }


@pytest.mark.parametrize(
    ("changes", "text", "reason", "stop"),
    [
        ({"max_tokens": 3}, "Par", "max_tokens", None),
        ({"stop_sequences": ["ri", "x"]}, "Pa", "stop_sequence", "ri"),
        (
            {"messages": [{"role": "user", "content": "x" * 118}]},
            "Pari",
            "model_context_window_exceeded",
            None,
        ),
    ],
)
def test_an_answer_says_why_it_ended(
    client: httpx.Client, changes: dict[str, object], text: str, reason: str, stop: str | None
) -> None:
    answer = client.post(URL, json=BODY | changes).json()
    assert answer["content"] == [{"type": "text", "text": text}]
    assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, stop)


def test_a_stop_string_of_the_model_ends_a_turn() -> None:
    with served(create_app(ScriptedEngine(defaults={"stop": ["ri"]}))) as url:
        answer = httpx.post(f"{url}{URL}", json=BODY).json()
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)


def test_a_stream_has_anthropics_events_in_order(client: httpx.Client) -> None:
    first, *middle, last = events(client.post(URL, json=BODY | {"stream": True, "max_tokens": 2}))
    assert first["message"]["usage"] == {"input_tokens": 8, "output_tokens": 0}
    assert first["message"]["content"] == []
    assert [event["type"] for event in middle] == [
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
    ]
    assert "".join(event["delta"]["text"] for event in middle[1:3]) == "Pa"
    assert middle[-1]["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert middle[-1]["usage"]["output_tokens"] == 2
    assert last == {"type": "message_stop"}


def test_turns_of_one_role_are_one_and_the_system_is_first(
    client: httpx.Client, engine: ScriptedEngine
) -> None:
    engine.requests.clear()
    blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    messages = [
        {"role": "user", "content": blocks},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]
    client.post(URL, json=BODY | {"messages": messages, "system": [{"type": "text", "text": "S"}]})
    assert engine.requests[0][0] == "system: S\nuser: a\nb\nassistant: c"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"temprature": 1}, "temprature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"thinking": {"type": "always"}}, "thinking.type"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "text": ""}]}]}, "content[0].type"),
        ({"messages": [{"role": "user", "content": None}]}, "content"),
        ({"n": 2}, "n"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_not_done_is_refused_by_name(
    client: httpx.Client, changes: dict[str, object], name: str, streamed: bool
) -> None:
    response = client.post(URL, json=BODY | changes | {"stream": streamed})
    assert name in refusal(response, 400, "invalid_request_error")


def test_what_cannot_change_the_text_is_accepted(client: httpx.Client) -> None:
    extras = {
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "tools": [],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "cache_control": {"type": "ephemeral"},
    }
    assert client.post(URL, json=BODY | extras).status_code == 200


@pytest.mark.parametrize("path", [URL, f"{URL}/count_tokens"])
def test_an_unknown_model_is_told_which_there_are(client: httpx.Client, path: str) -> None:
    body = {"model": "nope", "messages": BODY["messages"]} | ({"max_tokens": 1} if path == URL else {})
    assert "demo, other" in refusal(client.post(path, json=body), 404, "not_found_error")


def test_a_conversation_that_does_not_fit_is_told_both_counts(client: httpx.Client) -> None:
    body = BODY | {"messages": [{"role": "user", "content": "x" * 200}]}
    assert "128" in refusal(client.post(URL, json=body | {"stream": True}), 400, "invalid_request_error")


def test_the_tokens_of_a_conversation_are_counted_as_the_answer_counts_them(client: httpx.Client) -> None:
    body = {"model": "demo", "messages": BODY["messages"], "system": "Be brief."}
    counted = client.post(f"{URL}/count_tokens", json=body).json()
    assert counted == {"input_tokens": 26}
    answer = client.post(URL, json=body | {"max_tokens": 1}).json()
    assert answer["usage"]["input_tokens"] == 26


def test_an_unknown_path_is_told_in_anthropics_form(client: httpx.Client) -> None:
    assert refusal(client.post(f"{URL}/batches", json={}), 404, "not_found_error")
    assert refusal(client.get(URL), 405, "invalid_request_error")
    assert refusal(client.post(URL, content=b"{", headers={"content-type": "application/json"}), 400, INVALID)


INVALID = "invalid_request_error"


def test_a_failure_in_the_middle_is_the_last_event() -> None:
    def fail() -> None:
        if isinstance(engine.decoder.calls[-1], int):
            raise BackendFailure("out of memory")

    engine = ScriptedEngine(before_token=fail)
    with served(create_app(engine)) as url:
        *pieces, last = events(httpx.post(f"{url}{URL}", json=BODY | {"stream": True}))
        assert pieces[-1]["type"] == "content_block_delta"
        assert last == {"type": "error", "error": {"type": "api_error", "message": "out of memory"}}
        assert refusal(httpx.post(f"{url}{URL}", json=BODY), 500, "api_error") == "out of memory"


def test_the_official_client_works_unchanged(client: httpx.Client) -> None:
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed")
    with anthropic.Anthropic(base_url=str(client.base_url), api_key="none", max_retries=0) as user:
        answer = user.messages.create(**BODY)
        assert (answer.content[0].text, answer.stop_reason) == ("Paris.", "end_turn")
        with user.messages.stream(**BODY) as stream:
            assert "".join(stream.text_stream) == "Paris."
            final = stream.get_final_message()
        assert (final.usage.input_tokens, final.usage.output_tokens) == (8, 6)
        counted = user.messages.count_tokens(model="demo", messages=BODY["messages"])
        assert counted.input_tokens == 8
        with pytest.raises(anthropic.NotFoundError, match="registered: demo, other"):
            user.messages.create(**BODY | {"model": "nope"})
        with pytest.raises(anthropic.BadRequestError, match="temperature"):
            user.messages.create(**BODY, extra_body={"temperature": -1})


def test_a_message_without_blocks_is_an_empty_turn(client: httpx.Client) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        body = {"model": "demo", "messages": [{"role": "user", "content": []}]}
        limit = {"max_tokens": 1} if path == "/v1/messages" else {}
        assert client.post(path, json=body | limit).status_code == 200
