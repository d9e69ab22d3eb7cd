import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from rase_api import create_app
from rase_api.replies.ollama import OllamaWriter, chat_content
from rase_api.schemas.ollama import OllamaChat
from rase_api.testing import ScriptedEngine, served
from rase_core.errors import BackendFailure
from rase_core.testing_waits import wait_for
from rase_models.chat.parts import ArgumentPiece, ToolCall

CHAT: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
GENERATE = {"model": "demo", "prompt": "Hi"}
COST = {
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
}


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def refusal(response: httpx.Response, status: int = 400) -> str:
    assert response.status_code == status
    assert set(response.json()) == {"error"}
    return str(response.json()["error"])


def test_a_chat_is_streamed_unless_it_is_asked_not_to(client: httpx.Client) -> None:
    *pieces, last = lines(client.post("/api/chat", json=CHAT))
    assert [piece["message"] for piece in pieces] == [{"role": "assistant", "content": c} for c in "Paris."]
    assert all(not piece["done"] and piece["model"] == "demo" and piece["created_at"] for piece in pieces)
    assert last["message"] == {"role": "assistant", "content": ""}
    assert (last["done"], last["done_reason"]) == (True, "stop")
    assert set(last) >= COST
    assert (last["prompt_eval_count"], last["eval_count"]) == (8, 6)


def test_a_whole_chat_is_one_object(client: httpx.Client) -> None:
    answer = client.post("/api/chat", json=CHAT | {"stream": False}).json()
    assert answer["message"] == {"role": "assistant", "content": "Paris."}
    assert set(answer) == COST | {"model", "created_at", "message", "done", "done_reason"}
    assert all(isinstance(answer[name], int) for name in COST)


def test_a_prompt_is_a_users_message_after_the_systems(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    *pieces, last = lines(client.post("/api/generate", json=GENERATE | {"system": "Be brief."}))
    assert "".join(piece["response"] for piece in pieces) == "Paris."
    assert (last["response"], last["done_reason"]) == ("", "stop")
    assert engine.requests[0][0] == "system: Be brief.\nuser: Hi"


def test_a_raw_prompt_is_gone_on_with_as_it_is(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    answer = client.post("/api/generate", json=GENERATE | {"raw": True, "stream": False}).json()
    assert answer["response"] == "Paris."
    assert engine.requests[0][0] == "Hi"
    assert "system" in refusal(client.post("/api/generate", json=GENERATE | {"raw": True, "system": "x"}))


def test_options_reach_the_sampler(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    options = {
        "num_predict": 3,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.5,
        "min_p": 0.1,
        "seed": 9,
        "stop": ["x", "y"],
        "repeat_penalty": 1.5,
        "repeat_last_n": 5,
        "presence_penalty": 0.25,
        "frequency_penalty": 0.75,
        "num_ctx": 128,
        "num_thread": 4,
        "num_gpu": 0,
    }
    answer = client.post("/api/chat", json=CHAT | {"options": options, "stream": False}).json()
    assert (answer["message"]["content"], answer["done_reason"]) == ("Par", "length")
    config = engine.requests[0][1]
    assert (config.max_tokens, config.temperature, config.top_k) == (3, 0.5, 7)
    assert (config.top_p, config.min_p, config.seed, config.stop) == (0.5, 0.1, 9, ("x", "y"))
    assert (config.repetition_penalty, config.penalty_last_n) == (1.5, 5)
    assert (config.presence_penalty, config.frequency_penalty) == (0.25, 0.75)


@pytest.mark.parametrize("limit", [-1, -2])
def test_an_answer_without_limit_ends_where_the_context_does(client: httpx.Client, limit: int) -> None:
    options = {"num_predict": limit, "stop": []}
    answer = client.post("/api/chat", json=CHAT | {"options": options, "stream": False}).json()
    assert answer["message"]["content"] == "Paris."


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"options": {"temprature": 1}}, "options.temprature"),
        ({"options": {"temperature": "1"}}, "options.temperature"),
        ({"options": {"temperature": -1}}, "options.temperature"),
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"options": {"num_ctx": 129}}, "options.num_ctx"),
        ({"options": {"num_ctx": 0}}, "options.num_ctx"),
        ({"options": {"num_gpu": 1}}, "options.num_gpu"),
        ({"options": {"num_gpu": 99}}, "options.num_gpu"),
        ({"options": {"num_gpu": -2}}, "options.num_gpu"),
        ({"options": {"num_predict": -3}}, "options.num_predict"),
        ({"format": "yaml"}, "format"),
        ({"format": {"a": 1}, "tools": [{"type": "x", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"truncate": True}, "truncate"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"keep_alive": True}, "keep_alive"),
        ({"temperature": 1}, "temperature"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_what_is_not_done_is_refused_by_name(
    client: httpx.Client, changes: dict[str, object], name: str, streamed: bool
) -> None:
    assert f"'{name}'" in refusal(client.post("/api/chat", json=CHAT | changes | {"stream": streamed}))


@pytest.mark.parametrize("name", ["suffix", "template", "context", "images"])
def test_what_a_prompt_cannot_have_is_refused_by_name(client: httpx.Client, name: str) -> None:
    value = [1] if name in ("context", "images") else "x"
    assert f"'{name}'" in refusal(client.post("/api/generate", json=GENERATE | {name: value}))


@pytest.mark.parametrize(
    ("keep_alive", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("-1", None), ("-1s", None), (300, 300), (-1, None), (0.5, 0.5), ("0", 0)],
)
@pytest.mark.parametrize("stream", [True, False])
def test_keep_alive_says_how_long_the_model_stays(
    client: httpx.Client, engine: ScriptedEngine, keep_alive: object, seconds: float | None, stream: bool
) -> None:
    engine.keep("demo", 77)
    body = CHAT | {"keep_alive": keep_alive, "stream": stream}
    assert client.post("/api/chat", json=body).status_code == 200
    (model,) = [model for model in engine.loaded_models() if model.manifest.id == "demo"]
    wait_for(lambda: model.expires_in != 77)  # it is said in another thread than the answer
    assert model.expires_in == seconds
    assert client.post("/api/chat", json=CHAT).status_code == 200  # which changes nothing
    assert model.expires_in == seconds
    engine.keep("demo", None)


def test_a_prompt_that_does_not_fit_is_never_cut(client: httpx.Client) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "x" * 200}]}
    assert "maximum context length is 128" in refusal(client.post("/api/chat", json=body))


@pytest.mark.parametrize(
    ("path", "body"), [("chat", CHAT), ("generate", GENERATE), ("show", {"model": "demo"}), ("embed", {})]
)
def test_an_unknown_model_is_told_which_there_are(
    client: httpx.Client, path: str, body: dict[str, object]
) -> None:
    assert "demo, other" in refusal(client.post(f"/api/{path}", json=body | {"model": "llama3:latest"}), 404)


def test_the_tag_latest_is_no_part_of_a_name(client: httpx.Client) -> None:
    answer = client.post("/api/chat", json=CHAT | {"model": "demo:latest", "stream": False})
    assert answer.json()["message"]["content"] == "Paris."


@pytest.mark.parametrize("path", ["pull", "nope", "chat/x"])
def test_an_unknown_path_is_told_in_ollamas_form(client: httpx.Client, path: str) -> None:
    assert f"/api/{path}" in refusal(client.post(f"/api/{path}", json={}), 404)
    assert refusal(client.get("/api/chat"), 405)


@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_a_body_must_be_declared_as_json(client: httpx.Client, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    assert refusal(client.post("/api/chat", content=b"{}", headers=headers), 415)


def test_an_empty_request_loads_and_unloads() -> None:
    engine = ScriptedEngine()
    with served(create_app(engine)) as url, httpx.Client(base_url=url) as client:
        assert client.get("/api/ps").json() == {"models": []}
        (loaded,) = lines(client.post("/api/generate", json={"model": "demo"}))
        assert (loaded["done"], loaded["done_reason"], loaded["response"]) == (True, "load", "")
        (model,) = client.get("/api/ps").json()["models"]
        assert (model["name"], model["context_length"]) == ("demo", 128)
        assert (model["size"], model["expires_at"]) == (1, "9999-12-31T23:59:59Z")
        (loaded,) = lines(client.post("/api/generate", json={"model": "demo", "keep_alive": "10m"}))
        assert loaded["done_reason"] == "load"
        (model,) = client.get("/api/ps").json()["models"]
        left = datetime.fromisoformat(model["expires_at"]) - datetime.now(UTC)
        assert 590 < left.total_seconds() <= 600
        body = {"model": "demo", "messages": [], "keep_alive": 0, "stream": False}
        assert client.post("/api/chat", json=body).json()["done_reason"] == "unload"
        assert client.get("/api/ps").json() == {"models": []}


def test_models_are_listed_and_shown(client: httpx.Client) -> None:
    models = client.get("/api/tags").json()["models"]
    assert [model["name"] for model in models] == ["demo", "other"]
    assert models[0]["digest"] == "0" * 64
    assert models[0]["details"]["format"] == "gguf"
    shown = client.post("/api/show", json={"model": "demo"}).json()
    assert shown["capabilities"] == ["completion"]
    assert "temperature 0.7" in shown["parameters"]


def test_there_is_a_version(client: httpx.Client) -> None:
    assert client.get("/api/version").json()["version"][0].isdigit()


def test_a_failure_in_the_middle_is_the_last_line() -> None:
    engine = ScriptedEngine(before_token=lambda: _fail(engine))
    with served(create_app(engine)) as url:
        *pieces, last = lines(httpx.post(f"{url}/api/chat", json=CHAT))
        assert "".join(piece["message"]["content"] for piece in pieces) == "Pa"
        assert last == {"error": "out of memory"}
        whole = httpx.post(f"{url}/api/chat", json=CHAT | {"stream": False})
        assert refusal(whole, 500) == "out of memory"


def _fail(engine: ScriptedEngine) -> None:
    if isinstance(engine.decoder.calls[-1], int):
        raise BackendFailure("out of memory")


def test_the_official_client_works_unchanged(client: httpx.Client) -> None:
    ollama = pytest.importorskip("ollama", reason="Ollama's client is not installed")
    with ollama.Client(host=str(client.base_url)) as user:
        assert user.chat("demo", CHAT["messages"]).message.content == "Paris."
        parts = list(user.generate("demo", "Hi", options={"num_predict": 2}, stream=True))
        assert [part.response for part in parts] == ["P", "a", ""]
        assert (parts[-1].done, parts[-1].done_reason, parts[-1].eval_count) == (True, "length", 2)
        assert [model.model for model in user.list().models] == ["demo", "other"]
        assert user.show("demo").capabilities == ["completion"]
        assert {model.model for model in user.ps().models} >= {"demo"}
        with pytest.raises(ollama.ResponseError, match="registered: demo, other") as failure:
            user.chat("nope", CHAT["messages"])
        assert failure.value.status_code == 404
        with pytest.raises(ollama.ResponseError, match=r"options\.temperature"):
            list(user.chat("demo", CHAT["messages"], options={"temperature": -1}, stream=True))


def test_a_call_comes_before_the_thought_behind_it() -> None:
    writer = OllamaWriter(OllamaChat(**CHAT), chat_content)
    events = [*writer.called(0, ToolCall(0, "call_1", "clock", "{}")), *writer.thought(0, "Hm")]
    call, thought = [json.loads(event)["message"] for event in events]
    assert call["tool_calls"][0]["function"]["name"] == "clock" and thought["thinking"] == "Hm"


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 1e999}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": ' + "[" * 3000, "[1]", '"x"', '{"a": '],
)
def test_arguments_that_no_client_could_read_are_left_out_of_a_stream(arguments: str) -> None:
    writer = OllamaWriter(OllamaChat(**CHAT), chat_content)
    assert [*writer.called(0, ToolCall(0, "call_1", "clock", ""))] == []
    assert [*writer.argued(0, ArgumentPiece(0, arguments))] == []
    (event,) = writer.thought(0, "Hm")
    assert json.loads(event)["message"] == {"role": "assistant", "content": "", "thinking": "Hm"}
