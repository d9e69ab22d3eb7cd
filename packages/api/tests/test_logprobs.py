"""Log probabilities in every API that has them, by the official clients, against numpy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest
from numpy.typing import NDArray
from rase_api import create_app
from rase_api.testing import served
from rase_core.decoder import Logits
from rase_models.engine import Engine

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 2}
URL = "/v1/chat/completions"
PROMPT = "The capital of France is Paris. The capital of Italy is"


def data_of(text: str) -> list[dict[str, Any]]:
    """Read the objects of an SSE stream."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def check_entry(entry: dict[str, Any]) -> None:
    assert set(entry) == {"token", "logprob", "bytes", "top_logprobs"}
    assert bytes(entry["bytes"]).decode("utf-8", "replace") == entry["token"]
    assert entry["logprob"] <= 0
    assert [top["logprob"] for top in entry["top_logprobs"]] == sorted(
        (top["logprob"] for top in entry["top_logprobs"]), reverse=True
    )


def test_a_chat_tells_each_token_with_the_likeliest(client: httpx.Client) -> None:
    choice = client.post(URL, json=CHAT).json()["choices"][0]
    content = choice["logprobs"]["content"]
    assert [entry["token"] for entry in content] == list("Paris.")
    for entry in content:
        check_entry(entry)
        assert len(entry["top_logprobs"]) == 2
        assert entry["top_logprobs"][0]["token"] == entry["token"]


def test_without_being_asked_nothing_is_told(client: httpx.Client) -> None:
    plain = {key: value for key, value in CHAT.items() if "logprobs" not in key}
    assert client.post(URL, json=plain).json()["choices"][0]["logprobs"] is None
    told = client.post(URL, json=plain | {"logprobs": True}).json()["choices"][0]["logprobs"]
    assert [entry["top_logprobs"] for entry in told["content"]] == [[]] * 6


@pytest.mark.parametrize("stop", [None, "s.", "is!", "P"])
def test_a_stream_tells_the_same_as_the_whole_answer(client: httpx.Client, stop: str | None) -> None:
    body = CHAT | {"stop": stop}
    whole = client.post(URL, json=body).json()["choices"][0]
    chunks = data_of(client.post(URL, json=body | {"stream": True}).text)
    choices = [chunk["choices"][0] for chunk in chunks]
    told = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    assert told == whole["logprobs"]["content"]
    assert "".join(entry["token"] for entry in told) == whole["message"]["content"]


def test_completions_tell_columns(client: httpx.Client) -> None:
    body = {"model": "demo", "prompt": "Hi", "logprobs": 3}
    choice = client.post("/v1/completions", json=body).json()["choices"][0]
    told = choice["logprobs"]
    assert told["tokens"] == list("Paris.")
    assert told["text_offset"] == [0, 1, 2, 3, 4, 5]
    assert all(set(top) >= {token} for token, top in zip(told["tokens"], told["top_logprobs"], strict=True))
    assert all(len(top) == 3 for top in told["top_logprobs"])
    chunks = data_of(client.post("/v1/completions", json=body | {"stream": True}).text)
    streamed = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"][0]["logprobs"]]
    for column in told:
        assert [value for part in streamed for value in part[column]] == told[column]


def test_completions_echo_their_prompt(client: httpx.Client) -> None:
    body = {"model": "demo", "prompt": ["Hi ", [72, 111, 32]], "echo": True, "n": 2}
    choices = client.post("/v1/completions", json=body).json()["choices"]
    assert [choice["text"] for choice in choices] == ["Hi Paris."] * 2 + ["Ho Paris."] * 2
    chunks = data_of(client.post("/v1/completions", json=body | {"stream": True}).text)
    texts = ["", "", "", ""]
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == [choice["text"] for choice in choices]
    nothing = client.post("/v1/completions", json=body | {"max_tokens": 0, "stream": True}).text
    assert [chunk["choices"][0]["text"] for chunk in data_of(nothing)][:2] == ["Hi ", ""]


def test_responses_tell_those_of_the_message(client: httpx.Client) -> None:
    body = {"model": "demo", "input": "Hi", "top_logprobs": 1, "include": ["message.output_text.logprobs"]}
    part = client.post("/v1/responses", json=body).json()["output"][0]["content"][0]
    assert [entry["token"] for entry in part["logprobs"]] == list("Paris.")
    events = data_of(client.post("/v1/responses", json=body | {"stream": True}).text)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    done = next(event for event in events if event["type"] == "response.output_text.done")
    assert [entry for event in deltas for entry in event["logprobs"]] == part["logprobs"] == done["logprobs"]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == part["logprobs"]


def test_sglang_tells_triples(client: httpx.Client) -> None:
    body = {"text": "Hi", "model": "demo", "return_logprob": True, "top_logprobs_num": 1}
    meta = client.post("/generate", json=body).json()["meta_info"]
    assert [token for _, token, _ in meta["output_token_logprobs"]] == list(b"Paris.")
    assert meta["output_top_logprobs"][0][0][1:] == [ord("P"), None]
    assert meta["input_token_logprobs"] == []
    named = client.post("/generate", json=body | {"return_text_in_logprobs": True}).json()["meta_info"]
    assert [text for _, _, text in named["output_token_logprobs"]] == list("Paris.")


def test_ollamas_client_reads_them(client: httpx.Client) -> None:
    with ollama.Client(host=str(client.base_url)) as asked:
        check_ollama(asked)


def check_ollama(asked: ollama.Client) -> None:
    whole = asked.chat("demo", [{"role": "user", "content": "Hi"}], logprobs=True, top_logprobs=2)
    told = whole.logprobs or []
    assert [entry.token for entry in told] == list("Paris.")
    assert all(len(entry.top_logprobs or []) == 2 for entry in told)
    pieces = asked.generate("demo", "Hi", stream=True, logprobs=True)
    assert [entry.token for piece in pieces for entry in piece.logprobs or []] == list("Paris.")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (URL, CHAT | {"logprobs": False}, "top_logprobs"),
        (URL, CHAT | {"logprobs": None}, "top_logprobs"),
        (URL, CHAT | {"top_logprobs": 21}, "top_logprobs"),
        (URL, CHAT | {"top_logprobs": -1}, "top_logprobs"),
        (URL, CHAT | {"logprobs": 5}, "logprobs"),
        ("/v1/completions", {"model": "demo", "prompt": "Hi", "logprobs": True}, "logprobs"),
        (
            "/v1/completions",
            {"model": "demo", "prompt": "Hi", "logprobs": 1, "echo": True, "stream": True},
            "echo",
        ),
        ("/v1/responses", {"model": "demo", "input": "Hi", "include": ["file"]}, "include"),
        ("/generate", {"text": "Hi", "model": "demo", "top_logprobs_num": 1}, "top_logprobs_num"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    client: httpx.Client, path: str, body: dict[str, object], param: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.fixture(scope="module")
def engine_of_smol(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with a real model, with two threads."""
    with Engine(tmp_path_factory.mktemp("store"), "cpu", threads=2, context_length=256) as engine:
        engine.import_model(smollm2_path, "demo")
        yield engine


@pytest.fixture(scope="module")
def smol(engine_of_smol: Engine) -> Iterator[openai.OpenAI]:
    """OpenAI's client of a server of that."""
    with (
        served(create_app(engine_of_smol)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client,
    ):
        yield client


def expected(logits: Logits) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    most = float(values.max())
    return values - float(np.log(np.exp(values - most).sum())) - most


def test_a_real_models_are_those_of_its_logits(smol: openai.OpenAI, engine_of_smol: Engine) -> None:
    completion = smol.completions.create(
        model="demo", prompt=PROMPT, max_tokens=4, temperature=0, logprobs=3, echo=True
    )
    choice = completion.choices[0]
    assert choice.text.startswith(PROMPT)
    told = choice.logprobs
    assert told is not None
    assert told.tokens is not None
    assert "".join(told.tokens) == choice.text
    assert [choice.text[:offset] for offset in told.text_offset or ()] == [
        "".join(told.tokens[:index]) for index in range(len(told.tokens))
    ]
    session = engine_of_smol.load("demo")
    tokens = session.tokenizer.encode(choice.text, add_special_tokens=False)
    assert len(tokens) == len(told.tokens)
    logprobs = told.token_logprobs or []
    assert logprobs[0] is None
    rows = all_logits(engine_of_smol, tokens)
    for index in range(1, len(tokens)):
        assert logprobs[index] == pytest.approx(expected(rows[index - 1])[tokens[index]], abs=2e-3)


def all_logits(engine: Engine, tokens: list[int]) -> Logits:
    """Compute a text by a decoder of its own."""
    from rase_models.loading import load_decoder

    decoder = load_decoder(engine.inspect("demo").weights_path, "cpu", 2, context_length=256)
    try:
        return decoder.logits(tokens)
    finally:
        decoder.close()


def test_a_prompt_alone_is_told(smol: openai.OpenAI) -> None:
    completion = smol.completions.create(model="demo", prompt=PROMPT, max_tokens=0, logprobs=1, echo=True)
    choice = completion.choices[0]
    assert (choice.text, choice.finish_reason) == (PROMPT, "length")
    assert choice.logprobs is not None
    assert completion.usage is not None
    assert len(choice.logprobs.tokens or ()) == completion.usage.prompt_tokens


def test_a_real_chat_tells_the_same_streamed(smol: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "demo",
        "messages": [{"role": "user", "content": "Say hello in French, with an emoji."}],
        "max_tokens": 24,
        "seed": 7,
        "logprobs": True,
        "top_logprobs": 5,
    }
    whole = smol.chat.completions.create(**asked).choices[0]
    told = [entry.model_dump() for entry in (whole.logprobs and whole.logprobs.content) or ()]
    assert (
        b"".join(bytes(entry["bytes"]) for entry in told).decode("utf-8", "replace") == whole.message.content
    )
    streamed = [
        entry.model_dump()
        for chunk in smol.chat.completions.create(**asked, stream=True)
        if chunk.choices and chunk.choices[0].logprobs
        for entry in chunk.choices[0].logprobs.content or ()
    ]
    assert [entry["token"] for entry in streamed] == [entry["token"] for entry in told]
    assert [entry["logprob"] for entry in streamed] == pytest.approx([entry["logprob"] for entry in told])
