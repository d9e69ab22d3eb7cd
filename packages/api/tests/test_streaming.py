import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_api import create_app
from rase_api.replies.writer import Framed, sse
from rase_api.testing import ScriptedEngine, served
from rase_core.errors import BackendFailure

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
COMPLETION = {"model": "demo", "prompt": "Hi", "stream": True}
USAGE = {"stream_options": {"include_usage": True}}


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """Parse a whole stream, which must end with [DONE]."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    blocks = response.text.split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]


def test_a_chat_comes_as_role_text_and_end(client: httpx.Client) -> None:
    chunks = events(client.post("/v1/chat/completions", json=CHAT | {"stop": "ris"}))
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "P"},
        {"content": "a"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert all(
        set(chunk["choices"][0]) == {"index", "delta", "logprobs", "finish_reason"} for chunk in chunks
    )


def test_all_chunks_share_id_time_model_and_fingerprint(client: httpx.Client) -> None:
    chunks = events(client.post("/v1/chat/completions", json=CHAT))
    shared = {
        tuple(chunk[key] for key in ("id", "created", "model", "system_fingerprint", "object"))
        for chunk in chunks
    }
    assert len(shared) == 1
    assert all("usage" not in chunk for chunk in chunks)


@pytest.mark.parametrize(("url", "body"), [("chat/completions", CHAT), ("completions", COMPLETION)])
def test_usage_comes_last_when_asked_for_and_is_null_before(
    client: httpx.Client, url: str, body: dict[str, object]
) -> None:
    *chunks, last = events(client.post(f"/v1/{url}", json=body | USAGE))
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["id"] == chunks[0]["id"]
    whole = client.post(f"/v1/{url}", json=body | {"stream": False}).json()
    assert last["usage"] == whole["usage"]


def test_a_completion_comes_as_text_and_end(client: httpx.Client) -> None:
    chunks = events(client.post("/v1/completions", json=COMPLETION | {"max_tokens": 2}))
    assert [chunk["choices"] for chunk in chunks] == [
        [{"index": 0, "text": text, "logprobs": None, "finish_reason": reason}]
        for text, reason in [("P", None), ("a", None), ("", "length")]
    ]


def test_each_choice_has_its_own_opening_and_end(client: httpx.Client) -> None:
    chunks = events(client.post("/v1/chat/completions", json=CHAT | {"n": 2, "max_tokens": 1}))
    assert [(chunk["choices"][0]["index"], chunk["choices"][0]["delta"]) for chunk in chunks] == [
        (index, delta)
        for index in (0, 1)
        for delta in ({"role": "assistant", "content": ""}, {"content": "P"}, {})
    ]


def test_an_answer_without_text_still_opens_and_ends(client: httpx.Client) -> None:
    chunks = events(client.post("/v1/chat/completions", json=CHAT | {"max_tokens": 0}))
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [{"role": "assistant", "content": ""}, {}]


def test_text_comes_in_whole_characters_on_single_lines() -> None:
    text = "é\u2028\x85😀\n\r\n"
    with served(create_app(ScriptedEngine(text))) as url:
        response = httpx.post(f"{url}/v1/completions", json=COMPLETION)
    assert "".join(chunk["choices"][0]["text"] for chunk in events(response)) == text
    assert response.text.isascii()


def test_an_event_is_one_line_of_ascii() -> None:
    assert sse({"a": "é\u2028\n"}) == b'data: {"a":"\\u00e9\\u2028\\n"}\n\n'


@given(st.text(), st.text(min_size=1).filter(lambda text: text != "\0"))
def test_a_framed_event_is_what_it_would_be_as_a_whole(text: str, other: str) -> None:
    framed = Framed(lambda text: sse({"id": other, "delta": {"a": text, "b": text}, "c": None}))
    assert framed(text) == sse({"id": other, "delta": {"a": text, "b": text}, "c": None})


class Failing(ScriptedEngine):
    """An engine that fails at its third token."""

    def __init__(self, error: Exception) -> None:
        super().__init__(before_token=self._fail)
        self._error = error

    def _fail(self) -> None:
        if isinstance(self.decoder.calls[-1], int):
            raise self._error


@pytest.mark.parametrize(
    ("error", "code"),
    [(BackendFailure("out of memory"), "engine_error"), (ZeroDivisionError("secret"), "internal_error")],
)
def test_a_failure_in_the_middle_is_the_last_event(error: Exception, code: str) -> None:
    with served(create_app(Failing(error))) as url:
        response = httpx.post(f"{url}/v1/chat/completions", json=CHAT)
        assert response.status_code == 200
        *chunks, last, rest = response.text.split("\n\n")
        assert rest == ""
        assert json.loads(chunks[-1].removeprefix("data: "))["choices"][0]["delta"]["content"]
        failure = json.loads(last.removeprefix("data: "))["error"]
        assert failure["code"] == code
        assert set(failure) == {"message", "type", "param", "code"}
        assert "secret" not in response.text
        whole = httpx.post(f"{url}/v1/chat/completions", json=CHAT | {"stream": False})
        assert whole.status_code == 500
        assert whole.json()["error"]["code"] == code


def test_streamed_and_whole_answers_have_the_same_text(client: httpx.Client) -> None:
    whole = client.post("/v1/chat/completions", json=CHAT | {"stream": False}).json()
    chunks = events(client.post("/v1/chat/completions", json=CHAT))
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert streamed == whole["choices"][0]["message"]["content"] == "Paris."


def test_white_space_is_not_held_back_until_the_text_after_it() -> None:
    text = "A.\n\n b \n"
    with served(create_app(ScriptedEngine(text))) as url:
        chunks = events(httpx.post(f"{url}/v1/chat/completions", json=CHAT))
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert pieces == ["", *text, None]
