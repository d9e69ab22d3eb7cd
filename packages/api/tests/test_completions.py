import re
from pathlib import Path

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.scheduler import SchedulerLimits
from rase_models.engine import Engine

URL = "/v1/completions"
BODY = {"model": "demo", "prompt": "Hi"}


def test_an_answer_has_openais_shape(client: httpx.Client) -> None:
    answer = client.post(URL, json=BODY).json()
    assert re.fullmatch(r"cmpl-[0-9a-f]{32}", answer.pop("id"))
    assert answer.pop("system_fingerprint").startswith("fp_")
    assert answer.pop("created") > 1_600_000_000
    assert answer.pop("timings")["predicted_n"] == 6
    assert answer == {
        "object": "text_completion",
        "model": "demo",
        "choices": [{"index": 0, "text": "Paris.", "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 2,
            "completion_tokens": 6,
            "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


@pytest.mark.parametrize("n", [1, 2, 3])
def test_times_and_usage_count_the_same_tokens(client: httpx.Client, n: int) -> None:
    answer = client.post(URL, json=BODY | {"prompt": ["Hi", "Hello"], "n": n}).json()
    usage, timings = answer["usage"], answer["timings"]
    assert timings["prompt_n"] + timings["cache_n"] == usage["prompt_tokens"] == 7
    assert timings["cache_n"] == usage["prompt_tokens_details"]["cached_tokens"]
    assert timings["predicted_n"] == usage["completion_tokens"]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Hi", ["Hi"]),
        (["Hi"], ["Hi"]),
        ([72, 105], [(72, 105)]),
        (["a", "bc"], ["a", "bc"]),
        ([[72], [105]], [(72,), (105,)]),
    ],
)
def test_each_prompt_is_answered_in_order(
    client: httpx.Client, engine: ScriptedEngine, prompt: object, asked: list[object]
) -> None:
    engine.requests.clear()
    answer = client.post(URL, json=BODY | {"prompt": prompt}).json()
    assert [request[0] for request in engine.requests] == asked
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(asked)))
    assert answer["usage"]["completion_tokens"] == 6 * len(asked)


def test_choices_are_numbered_anew_for_each_prompt(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    answer = client.post(URL, json=BODY | {"prompt": ["a", "bc"], "n": 2}).json()
    assert sorted((prompt, choice) for prompt, _, choice in engine.requests) == [
        ("a", 0),
        ("a", 1),
        ("bc", 0),
        ("bc", 1),
    ]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("x" * 129, "context_length_exceeded"),
        ("", "invalid_value"),
        ([257], "invalid_value"),
        ([-1], "invalid_value"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_that_cannot_be_evaluated_is_refused(
    client: httpx.Client, prompt: object, code: str, streamed: bool
) -> None:
    response = client.post(URL, json=BODY | {"prompt": prompt, "stream": streamed})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code
    assert response.json()["error"]["param"] == "prompt"


def test_the_answers_of_one_request_are_bounded(client: httpx.Client) -> None:
    body = {"model": "demo", "prompt": ["Hi"] * 2048, "n": 2, "max_tokens": 1}
    refused = client.post("/v1/completions", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"
    params = {"n": 64, "max_new_tokens": 1}
    refused = client.post("/generate", json={"model": "demo", "text": ["Hi"] * 33, "sampling_params": params})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "sampling_params.n"


def test_as_many_choices_may_be_asked_for_as_the_engine_runs(smollm2_path: Path, tmp_path: Path) -> None:
    body = {"model": "demo", "prompt": "Hi", "max_tokens": 1}
    with Engine(tmp_path, "cpu", threads=2, context_length=64, limits=SchedulerLimits(running=66)) as engine:
        engine.import_model(smollm2_path, "demo")
        with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=60) as client:
            answer = client.post(URL, json=body | {"n": 66})
            assert len(answer.json()["choices"]) == 66
            for n in (67, 2000, 10**30):
                params: dict[str, object] = {"n": n, "max_new_tokens": 1}
                other = {"model": "demo", "text": "Hi", "sampling_params": params}
                check_refusal(client.post(URL, json=body | {"n": n}), "n", n)
                check_refusal(client.post("/generate", json=other), "sampling_params.n", n)


def check_refusal(answer: httpx.Response, name: str, n: int) -> None:
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        f"Invalid value for '{name}': expected a whole number of 1 to 66, but got {n}."
    )
