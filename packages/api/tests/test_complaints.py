"""What users of local servers complain about most, and that this server gives no cause for it.

The numbers are those of docs/complaints.md. Complaints about installing, weights, downloads, files and speed
are no server's affair; their tests stand with the store, the reader and the backends.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.scheduler import SchedulerLimits
from rase_core.testing_waits import wait_for
from rase_models.engine import Engine

CHAT: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
URL = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HERMES = (
    "{% if tools %}<tools>{{ tools | tojson }}</tools> call as "
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>{% endif %}'
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def real_engine(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A small real model, with room for 512 tokens and one request that waits."""
    limits = SchedulerLimits(waiting=1, running=4)
    store = tmp_path_factory.mktemp("store")
    with Engine(store, "cpu", threads=2, context_length=512, limits=limits) as engine:
        engine.import_model(smollm2_path, "demo")
        engine.import_model(smollm2_path, "caller", chat_template=HERMES)
        yield engine


@pytest.fixture(scope="module")
def real(real_engine: Engine) -> Iterator[httpx.Client]:
    """A client of a server of that."""
    with served(create_app(real_engine)) as url, httpx.Client(base_url=url, timeout=120) as client:
        yield client


def pieces(text: str) -> list[dict[str, Any]]:
    """Read the objects of an SSE stream."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def streamed_text(response: httpx.Response) -> str:
    chunks = pieces(response.text)
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


@pytest.mark.parametrize("stream", [False, True])
def test_complaint_1_a_prompt_is_never_cut_in_silence(real: httpx.Client, stream: bool) -> None:
    long = CHAT | {"messages": [{"role": "user", "content": "word " * 2000}], "stream": stream}
    error = real.post(URL, json=long).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 512 tokens" in error["message"]
    native = real.post("/api/chat", json=long)
    assert native.status_code == 400
    assert "512" in native.json()["error"]


def test_complaint_2_a_prompt_has_one_beginning_and_the_models_own_template(
    real: httpx.Client, real_engine: Engine
) -> None:
    prompt = real.post("/apply-template", json=CHAT).json()["prompt"]
    assert prompt == real_engine.render("demo", CHAT["messages"])
    tokens = real.post("/tokenize", json={"model": "demo", "messages": CHAT["messages"]}).json()["tokens"]
    begin = real_engine.load("demo").tokenizer.bos_token_id
    assert tokens.count(begin) == prompt.count("<|im_start|>")
    assert tokens[:2] != [begin, begin]


def test_complaint_3_what_the_model_is_given_can_be_read(real: httpx.Client) -> None:
    prompt = real.post("/apply-template", json=CHAT).json()["prompt"]
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_complaint_5_stop_strings_neither_leak_nor_replace_the_models_own(client: httpx.Client) -> None:
    for stop, text in ((["s."], "Pari"), (["is!"], "Paris."), (["ri", "a"], "P")):
        body = CHAT | {"stop": stop}
        assert client.post(URL, json=body).json()["choices"][0]["message"]["content"] == text
        assert streamed_text(client.post(URL, json=body | {"stream": True})) == text
    with served(create_app(ScriptedEngine("One. Two.", defaults={"stop": ["Tw"]}))) as url:
        answer = httpx.post(f"{url}{URL}", json=CHAT | {"stop": ["xyz"]}).json()
    assert answer["choices"][0]["message"]["content"] == "One. "


def test_complaint_6_no_character_is_cut_in_two() -> None:
    text = "Grüße 👋🏽 наконец 終わり"
    with served(create_app(ScriptedEngine(text, context_length=500))) as url:
        for path in (URL, "/v1/completions"):
            body = (CHAT if path == URL else {"model": "demo", "prompt": "Hi"}) | {"stream": True}
            choices = [chunk["choices"][0] for chunk in pieces(httpx.post(f"{url}{path}", json=body).text)]
            parts = [choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices]
            assert "".join(parts) == text
            assert not any("\ufffd" in part for part in parts)


def test_complaints_7_and_8_tools_are_called_also_streamed_and_only_as_asked(real: httpx.Client) -> None:
    body = {**CHAT, "model": "caller", "tools": [TOOL], "max_tokens": 60, "temperature": 0}
    for stream in (False, True):
        asked = body | {"tool_choice": "required", "stream": stream}
        response = real.post(URL, json=asked)
        if stream:
            deltas = [chunk["choices"][0]["delta"] for chunk in pieces(response.text)]
            calls = [call for delta in deltas for call in delta.get("tool_calls", []) if call["index"] == 0]
            arguments = "".join(call["function"].get("arguments", "") for call in calls)
            assert calls[0]["function"]["name"] == "weather"
        else:
            call = response.json()["choices"][0]["message"]["tool_calls"][0]
            assert call["function"]["name"] == "weather"
            arguments = call["function"]["arguments"]
        assert isinstance(json.loads(arguments)["city"], str)
    none = real.post(URL, json=body | {"tool_choice": "none"}).json()["choices"][0]
    assert "tool_calls" not in none["message"]


def test_complaint_9_broken_arguments_in_the_history_are_the_clients_fault(client: httpx.Client) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}}
    turns = [*CHAT["messages"], {"role": "assistant", "content": None, "tool_calls": [call]}]
    response = client.post(URL, json=CHAT | {"messages": turns})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages[1].tool_calls[0].function.arguments"


def test_complaint_10_a_format_is_kept_or_refused(real: httpx.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}},
        "required": ["n"],
        "additionalProperties": False,
        "$defs": {"n": {"type": "integer", "minimum": 1, "maximum": 9}},
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = CHAT | {"temperature": 1.5, "max_tokens": 40, "seed": 3}
    answer = real.post(URL, json=body | {"response_format": form}).json()["choices"][0]
    assert json.loads(answer["message"]["content"])["n"] in range(1, 10)
    for wrong in ({"regex": "("}, {"response_format": {"type": "xml"}}, {"regex": "(?=a)b"}):
        assert real.post(URL, json=body | wrong).status_code == 400


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_complaint_11_no_parameter_is_ignored_in_silence(client: httpx.Client, name: str) -> None:
    answer = client.post(URL, json=CHAT | {name: 2}).json()
    assert answer["usage"]["completion_tokens"] == 2
    refused = client.post(URL, json=CHAT | {"max_token": 2})
    assert refused.status_code == 400
    assert "max_token" in refused.json()["error"]["message"]


def test_complaint_12_nothing_is_computed_for_a_client_that_has_gone(
    real: httpx.Client, real_engine: Engine
) -> None:
    real.post(URL, json=CHAT | {"max_tokens": 1})
    scheduler = real_engine.load("demo").snapshot
    body = CHAT | {"ignore_eos": True, "max_tokens": 450}
    before = scheduler().totals.ended["cancelled"]

    def has_ended(count: int) -> Callable[[], bool]:
        return lambda: scheduler().totals.ended["cancelled"] == count

    for number, leave in enumerate((_lose_patience, _read_a_little), 1):
        leave(real, body)
        wait_for(has_ended(before + number))
    generated = scheduler().totals.generated_tokens
    time.sleep(0.2)
    assert scheduler().totals.generated_tokens == generated


def _lose_patience(client: httpx.Client, body: dict[str, object]) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{client.base_url}{URL}", json=body, timeout=0.3)


def _read_a_little(client: httpx.Client, body: dict[str, object]) -> None:
    with httpx.stream("POST", f"{client.base_url}{URL}", json=body | {"stream": True}) as response:
        next(response.iter_bytes())


def test_complaint_13_requests_run_together_and_none_ends_another(real: httpx.Client) -> None:
    bodies = [CHAT | {"max_tokens": 8, "seed": seed, "ignore_eos": True} for seed in range(4)]
    alone = [real.post(URL, json=body).json()["choices"][0]["message"]["content"] for body in bodies]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda body: real.post(URL, json=body).json(), bodies))
    assert [answer["choices"][0]["message"]["content"] for answer in answers] == alone


def test_complaint_16_a_models_memory_can_be_let_go_of(real: httpx.Client) -> None:
    real.post(URL, json=CHAT | {"max_tokens": 1})
    assert "demo" in {model["name"].removesuffix(":latest") for model in real.get("/api/ps").json()["models"]}
    assert real.post("/api/generate", json={"model": "demo", "keep_alive": 0}).status_code == 200
    wait_for(lambda: "demo" not in str(real.get("/api/ps").json()["models"]))


def test_complaint_17_what_is_kept_and_what_waits_is_bounded(real: httpx.Client, real_engine: Engine) -> None:
    for number in range(6):
        long = {"model": "demo", "prompt": f"{number} " + "word " * 300, "max_tokens": 1}
        assert real.post("/v1/completions", json=long).status_code == 200
    now = real_engine.load("demo").snapshot()
    assert now.kv_capacity is None or now.kv_used <= now.kv_capacity
    assert now.kv_used <= 5 * 512
    body = CHAT | {"ignore_eos": True, "max_tokens": 60}
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda _: real.post(URL, json=body), range(12)))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["error"]["code"] == "queue_full"


def test_complaint_18_a_conversation_is_not_computed_again(real: httpx.Client) -> None:
    turns = [{"role": "system", "content": "Be brief. " * 40}, {"role": "user", "content": "Hi"}]
    first = real.post(URL, json=CHAT | {"messages": turns, "max_tokens": 8}).json()
    turns += [first["choices"][0]["message"], {"role": "user", "content": "And?"}]
    turns[2] = {"role": "assistant", "content": turns[2]["content"]}
    second = real.post(URL, json=CHAT | {"messages": turns, "max_tokens": 8}).json()
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= 0.8 * first["usage"]["prompt_tokens"] - 64
    assert cached == second["timings"]["cache_n"] > 64


def test_complaint_20_keep_alive_is_understood(client: httpx.Client) -> None:
    for value in (-1, "5m", 0, "1h30m"):
        assert client.post("/api/chat", json=CHAT | {"keep_alive": value}).status_code == 200
    assert client.post("/api/chat", json=CHAT | {"keep_alive": "soon"}).status_code == 400


def test_complaint_24_the_same_request_has_the_same_answer_whatever_is_cached_or_runs(
    real: httpx.Client,
) -> None:
    body = CHAT | {"seed": 42, "temperature": 1.0, "max_tokens": 12}
    texts = {real.post(URL, json=body).json()["choices"][0]["message"]["content"] for _ in range(2)}
    noise = threading.Thread(
        target=lambda: real.post(URL, json=CHAT | {"seed": 1, "max_tokens": 40, "ignore_eos": True})
    )
    noise.start()
    texts.add(real.post(URL, json=body).json()["choices"][0]["message"]["content"])
    noise.join()
    texts.add(streamed_text(real.post(URL, json=body | {"stream": True})))
    assert len(texts) == 1


def test_complaint_25_the_plumbing_is_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with served(create_app(ScriptedEngine("<think>a</think>b"), api_keys=["key"])) as url:
        assert httpx.post(f"{url}{URL}", json=CHAT).status_code == 401
        with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as asked:
            with pytest.raises(openai.NotFoundError, match="registered: demo"):
                asked.chat.completions.create(**CHAT | {"model": "gpt-4o"})
            stream = asked.chat.completions.create(
                **CHAT, stream=True, stream_options={"include_usage": True}
            )
            last = list(stream)[-1]
            assert last.usage is not None
            assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
        key = {"x-api-key": "key"}
        tokens = httpx.post(f"{url}/tokenize", json={"content": "Hi"}, headers=key).json()["tokens"]
        text = httpx.post(f"{url}/detokenize", json={"tokens": tokens}, headers=key).json()["content"]
        assert text == "Hi"
    assert not caplog.records


def test_complaint_25_an_answer_ends_when_nothing_says_how_long_it_may_be() -> None:
    engine = ScriptedEngine("word " * 2000, context_length=100_000)
    with served(create_app(engine)) as url:
        answer = httpx.post(f"{url}{URL}", json=CHAT | {"ignore_eos": True}).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 256
