import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest
from rase_api import create_app
from rase_api.schemas.tokens import MOST_TOKENS, TokenizeRequest
from rase_api.testing import ByteWords, ScriptedEngine, ScriptedModel, served
from rase_models.room import Check, nothing_against
from rase_models.tokenizers.tokenizer import LONG

MESSAGES = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
RENDERED = "system: Be brief.\nuser: Hi"


@pytest.mark.parametrize("name", ["content", "prompt"])
def test_a_text_becomes_tokens(client: httpx.Client, name: str) -> None:
    answer = client.post("/tokenize", json={"model": "demo", name: "Hé"}).json()
    assert answer == {"tokens": list("Hé".encode()), "count": 3, "max_model_len": 128}


def test_tokens_come_with_their_text_when_asked_for(client: httpx.Client) -> None:
    body = {"model": "demo", "content": "Hi", "with_pieces": True, "return_token_strs": True}
    answer = client.post("/tokenize", json=body).json()
    assert answer["tokens"] == [{"id": 72, "piece": "H"}, {"id": 105, "piece": "i"}]
    assert answer["token_strs"] == ["H", "i"]


def test_a_token_that_is_a_part_of_a_character_is_told_as_its_bytes(client: httpx.Client) -> None:
    body = {"model": "demo", "content": "é!", "with_pieces": True, "return_token_strs": True}
    answer = client.post("/tokenize", json=body).json()
    assert [token["piece"] for token in answer["tokens"]] == [[0xC3], [0xA9], "!"]
    assert answer["token_strs"] == ["\ufffd", "\ufffd", "!"]


@pytest.mark.parametrize("name", ["content", "prompt"])
def test_more_tokens_than_one_answer_tells_are_refused(client: httpx.Client, name: str) -> None:
    whole = "é" * (MOST_TOKENS // 2)
    assert client.post("/tokenize", json={"model": "demo", name: whole}).is_success
    response = client.post("/tokenize", json={"model": "demo", name: whole + "a"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == name
    assert f"its {MOST_TOKENS + 1} tokens are more" in response.json()["error"]["message"]


def test_messages_become_the_tokens_of_their_prompt(client: httpx.Client) -> None:
    answer = client.post("/tokenize", json={"model": "demo", "messages": MESSAGES}).json()
    assert answer["tokens"] == list(RENDERED.encode())


def test_special_tokens_are_added_as_each_of_the_two_servers_does() -> None:
    cases: list[tuple[dict[str, object], bool]] = [
        ({"content": "x"}, False),
        ({"prompt": "x"}, True),
        ({"content": "x", "add_special": True}, True),
        ({"prompt": "x", "add_special_tokens": False}, False),
    ]
    for body, adds in cases:
        assert TokenizeRequest.parse(body).adds_special_tokens is adds


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": "x", "prompt": "y"}, "content"),
        ({"prompt": "x", "messages": MESSAGES}, "content"),
        ({"content": "x", "add_special": True, "add_special_tokens": True}, "add_special_tokens"),
        ({"messages": MESSAGES, "add_special": True}, "add_special"),
        ({"content": 5}, "content"),
        ({"content": "x", "with_tokens": True}, "with_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_what_cannot_be_tokenized_is_named(client: httpx.Client, body: dict[str, object], param: str) -> None:
    response = client.post("/tokenize", json={"model": "demo"} | body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_tokens_become_a_text_with_the_special_ones(client: httpx.Client) -> None:
    answer = client.post("/detokenize", json={"model": "demo", "tokens": [72, 105, 256]}).json()
    assert answer == {"content": "Hi<end>", "prompt": "Hi<end>"}


@pytest.mark.parametrize(
    ("tokens", "param"), [([1, 257], "tokens[1]"), ([-1], "tokens[0]"), (["a"], "tokens[0]"), ("x", "tokens")]
)
def test_tokens_that_do_not_exist_are_named(client: httpx.Client, tokens: object, param: str) -> None:
    response = client.post("/detokenize", json={"model": "demo", "tokens": tokens})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_a_conversation_is_shown_as_the_model_reads_it(client: httpx.Client) -> None:
    answer = client.post("/apply-template", json={"model": "demo", "messages": MESSAGES})
    assert answer.json() == {"prompt": RENDERED}


def test_the_tokens_of_a_conversation_are_counted_as_the_answer_counts_them(client: httpx.Client) -> None:
    body = {"model": "demo", "messages": MESSAGES}
    counted = client.post("/v1/chat/completions/input_tokens", json=body | {"temperature": 0}).json()
    usage = client.post("/v1/chat/completions", json=body).json()["usage"]
    assert counted == {"input_tokens": usage["prompt_tokens"]}


@pytest.mark.parametrize("path", ["tokenize", "detokenize", "apply-template", "generate"])
def test_only_where_there_is_one_model_it_need_not_be_named(client: httpx.Client, path: str) -> None:
    bodies = {
        "tokenize": {"content": "x"},
        "detokenize": {"tokens": [1]},
        "apply-template": {"messages": MESSAGES},
        "generate": {"text": "x"},
    }
    response = client.post(f"/{path}", json=bodies[path])
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "missing_required_parameter"
    assert "demo, other" in response.json()["error"]["message"]
    with served(create_app(ScriptedEngine())) as url:
        assert httpx.post(f"{url}/{path}", json=bodies[path]).status_code == 200


@pytest.mark.parametrize("path", ["tokenize", "detokenize", "apply-template"])
def test_an_unknown_model_is_told_which_there_are(client: httpx.Client, path: str) -> None:
    bodies: dict[str, dict[str, object]] = {
        "tokenize": {"content": "x"},
        "detokenize": {"tokens": []},
        "apply-template": {"messages": MESSAGES},
    }
    response = client.post(f"/{path}", json=bodies[path] | {"model": "nope"})
    assert response.status_code == 404
    assert "demo, other" in response.json()["error"]["message"]


def test_more_tokens_than_one_answer_reads_are_refused(client: httpx.Client) -> None:
    response = client.post("/detokenize", json={"model": "demo", "tokens": [65] * (MOST_TOKENS + 1)})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tokens"


class Reader(ByteWords):
    """A tokenizer that reads long texts when `go_on` is set; `texts` are those that it has read."""

    def __init__(self) -> None:
        self.go_on, self.texts = threading.Event(), list[str]()

    def encode(self, text: str, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        if len(text) > LONG:
            assert self.go_on.wait(60)
        self.texts.append(text)
        return super().encode(text)


class ReadingEngine(ScriptedEngine):
    """An engine of models with that tokenizer."""

    def __init__(self) -> None:
        super().__init__(context_length=100)
        self.reader = Reader()

    def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
        return replace(super().load(model_id), tokenizer=self.reader)


COUNTING = {
    "/tokenize": "messages",
    "/v1/chat/completions/input_tokens": "messages",
    "/v1/responses/input_tokens": "input",
    "/v1/messages/count_tokens": "messages",
}
"""Route -> what it calls the conversation."""


def conversation(name: str, text: str) -> dict[str, object]:
    return {"model": "demo", name: [{"role": "user", "content": text}]}


@pytest.mark.parametrize("path", COUNTING)
def test_a_text_beyond_any_use_is_refused_without_reading_it(path: str) -> None:
    engine, name = ReadingEngine(), COUNTING[path]
    with served(create_app(engine)) as url:
        response = httpx.post(url + path, json=conversation(name, "a" * MOST_TOKENS))
    assert response.status_code == 400
    assert f"'{name}': its tokens, at least {MOST_TOKENS + 6}, are more" in response.text
    assert engine.reader.texts == []


def requests_under_way(user: httpx.Client) -> float:
    [line] = [
        line for line in user.get("/metrics").text.splitlines() if line.startswith("rase_requests_running ")
    ]
    return float(line.split()[1])


def test_long_texts_that_are_counted_keep_nobody_else_waiting() -> None:
    engine, path = ReadingEngine(), "/tokenize"
    with (
        served(create_app(engine)) as url,
        ThreadPoolExecutor(40) as others,
        httpx.Client(base_url=url) as user,
    ):
        body = {"model": "demo", "content": "a" * (LONG + 1)}
        long = [others.submit(httpx.post, url + path, json=body, timeout=60) for _ in range(40)]
        while requests_under_way(user) < 40:
            time.sleep(0.01)
        try:
            assert user.post(path, json=body | {"content": "Hi"}).is_success
            assert user.post("/v1/chat/completions", json=conversation("messages", "Hi")).is_success
            assert not any(answer.done() for answer in long)
        finally:
            engine.reader.go_on.set()
        assert [answer.result().status_code for answer in long] == [200] * 40
    assert sum(len(text) > LONG for text in engine.reader.texts) == 40
