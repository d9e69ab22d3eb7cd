import json
from typing import Any

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_models.constraints import ResponseFormat

BODY = {"model": "demo", "text": "Hi"}
URL = "/generate"


def test_an_answer_has_sglangs_shape(client: httpx.Client) -> None:
    answer = client.post(URL, json=BODY | {"rid": "r1"}).json()
    assert answer["meta_info"].pop("e2e_latency") >= 0
    assert answer == {
        "text": "Paris.",
        "output_ids": list(b"Paris."),
        "meta_info": {
            "id": "r1",
            "finish_reason": {"type": "stop"},
            "prompt_tokens": 2,
            "completion_tokens": 6,
            "cached_tokens": 0,
        },
    }


@pytest.mark.parametrize(
    ("params", "text", "reason"),
    [
        ({"max_new_tokens": 3}, "Par", {"type": "length", "length": 3}),
        ({"stop": "ri"}, "Pa", {"type": "stop", "matched": "ri"}),
        ({"stop_token_ids": [ord("i")], "top_k": -1}, "Par", {"type": "stop"}),
    ],
)
def test_an_answer_says_why_it_ended(
    client: httpx.Client, params: dict[str, object], text: str, reason: dict[str, object]
) -> None:
    answer = client.post(URL, json=BODY | {"sampling_params": params}).json()
    assert (answer["text"], answer["meta_info"]["finish_reason"]) == (text, reason)


@pytest.mark.parametrize(
    "changes",
    [{"text": ["a", "b"]}, {"sampling_params": {"n": 2}}, {"text": None, "input_ids": [[1], [2]]}],
)
def test_several_prompts_or_choices_have_a_list_of_answers(
    client: httpx.Client, changes: dict[str, object]
) -> None:
    answers = client.post(URL, json=BODY | {"rid": "r"} | changes).json()
    assert [answer["text"] for answer in answers] == ["Paris.", "Paris."]
    assert [answer["meta_info"]["id"] for answer in answers] == ["r_0", "r_1"]


def test_token_ids_are_gone_on_with(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    body = {"model": "demo", "input_ids": [1, 2], "sampling_params": {"sampling_seed": 5}}
    assert client.post(URL, json=body).json()["text"] == "Paris."
    assert (engine.requests[0][0], engine.requests[0][1].seed) == ((1, 2), 5)


def test_every_piece_of_a_stream_has_the_whole_text_so_far(client: httpx.Client) -> None:
    body = BODY | {"stream": True, "sampling_params": {"max_new_tokens": 2}}
    *pieces, done, rest = client.post(URL, json=body).text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    parsed = [json.loads(piece.removeprefix("data: ")) for piece in pieces]
    assert [piece["text"] for piece in parsed] == ["P", "Pa", "Pa"]
    assert [piece["meta_info"]["prompt_tokens"] for piece in parsed] == [2, 2, 2]
    assert [piece["meta_info"]["completion_tokens"] for piece in parsed] == [1, 2, 2]
    assert parsed[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 2}


@pytest.mark.parametrize("form", [{"text": ["Hi", "Hello"]}, {"input_ids": [[1, 2], [1, 2, 3, 4, 5]]}])
def test_every_piece_of_several_answers_counts_the_tokens_of_its_own(
    client: httpx.Client, form: dict[str, object]
) -> None:
    body = {"model": "demo", "stream": True, "sampling_params": {"n": 2}, **form}
    lines = client.post(URL, json=body).text.split("\n\n")[:-2]
    pieces = [json.loads(line.removeprefix("data: ")) for line in lines]
    for index, prompt_tokens in enumerate([2, 2, 5, 5]):
        own = [piece["meta_info"] for piece in pieces if piece["index"] == index]
        assert {meta["prompt_tokens"] for meta in own} == {prompt_tokens}
        assert [meta["completion_tokens"] for meta in own] == [1, 2, 3, 4, 5, 6, 6]


@pytest.mark.parametrize("text", ["", "x" * 200, ["Hi", "x" * 200]])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_that_cannot_be_is_refused_alike_in_a_stream(
    client: httpx.Client, text: object, streamed: bool
) -> None:
    asked = client.post(URL, json={"model": "demo", "text": text, "stream": streamed})
    refused = asked.json() if asked.status_code == 400 else data(asked.text)[-1]
    assert refused["error"]["param"] == "text"


def data(text: str) -> list[dict[str, Any]]:
    """Read the objects of a stream."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"text": None}, "text"),
        ({"input_ids": [1]}, "text"),
        ({"sampling_params": {"temprature": 1}}, "sampling_params.temprature"),
        ({"sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"sampling_params": {"regex": "a", "ebnf": "b"}}, "sampling_params.ebnf"),
        ({"sampling_params": {"json_schema": "{"}}, "sampling_params.json_schema"),
        ({"sampling_params": {"json_schema": "1"}}, "sampling_params.json_schema"),
        ({"sampling_params": {"structural_tag": "a"}}, "sampling_params.structural_tag"),
        ({"token_ids_logprob": [1]}, "token_ids_logprob"),
        ({"temperature": 1}, "temperature"),
        ({"text": "x" * 200}, "text"),
    ],
)
def test_what_is_not_done_is_refused_by_name(
    client: httpx.Client, changes: dict[str, object], param: str
) -> None:
    response = client.post(URL, json=BODY | changes)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_the_model_is_described(client: httpx.Client) -> None:
    assert client.get("/model_info", params={"model": "other"}).json()["model_path"] == "other"
    assert client.get("/model_info").status_code == 400
    with served(create_app(ScriptedEngine())) as url:
        info = httpx.get(f"{url}/model_info").json()
    assert (info["model_path"], info["is_generation"]) == ("demo", True)


@pytest.mark.parametrize(
    ("params", "form"),
    [
        ({"json_schema": '{"type": "integer"}'}, ResponseFormat.json_schema({"type": "integer"})),
        ({"regex": "a+"}, ResponseFormat.regex("a+")),
        ({"ebnf": 'root ::= "a"'}, ResponseFormat.grammar('root ::= "a"')),
        ({}, None),
    ],
)
def test_formats_reach_the_engine(params: dict[str, object], form: ResponseFormat | None) -> None:
    engine = ScriptedEngine()
    with served(create_app(engine)) as url:
        assert httpx.post(f"{url}{URL}", json=BODY | {"sampling_params": params}).status_code == 200
    assert engine.formats[-1] == form
