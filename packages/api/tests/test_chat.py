import re
from dataclasses import replace

import httpx
import pytest
from rase_api.replies.cost import timings
from rase_api.testing import ScriptedEngine
from rase_core.generation import Generation, StopReason

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
URL = "/v1/chat/completions"
PARTS = ("n", "ms", "per_token_ms", "per_second")
TIMINGS = {"cache_n", *(f"{phase}_{part}" for phase in ("prompt", "predicted") for part in PARTS)}
USAGE = {"prompt_tokens_details": {"cached_tokens": 0}}


def test_an_answer_has_openais_shape(client: httpx.Client) -> None:
    answer = client.post(URL, json=CHAT).json()
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", answer.pop("id"))
    assert re.fullmatch(r"fp_[0-9a-f]{12}", answer.pop("system_fingerprint"))
    assert answer.pop("created") > 1_600_000_000
    assert set(answer.pop("timings")) == TIMINGS
    assert answer == {
        "object": "chat.completion",
        "model": "demo",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Paris.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE | {"prompt_tokens": 8, "completion_tokens": 6, "total_tokens": 14},
    }


@pytest.mark.parametrize(
    ("changes", "text", "reason", "tokens"),
    [
        ({"max_tokens": 3}, "Par", "length", 3),
        ({"max_completion_tokens": 2}, "Pa", "length", 2),
        ({"max_tokens": 0}, "", "length", 0),
        ({"stop": "ri"}, "Pa", "stop", 4),
        ({"stop": ["x", "s"]}, "Pari", "stop", 5),
        ({"stop_token_ids": [ord("i")]}, "Par", "stop", 3),
        ({"ignore_eos": True, "max_tokens": 9}, "Paris.Pa", "length", 9),
        ({"messages": [{"role": "user", "content": "x" * 118}]}, "Pari", "length", 4),
    ],
)
def test_an_answer_ends_where_and_why_it_should(
    client: httpx.Client, changes: dict[str, object], text: str, reason: str, tokens: int
) -> None:
    answer = client.post(URL, json=CHAT | changes).json()
    assert answer["choices"][0]["message"]["content"] == text
    assert answer["choices"][0]["finish_reason"] == reason
    assert answer["usage"]["completion_tokens"] == tokens


def test_several_choices_are_numbered_for_the_sampler_and_cost_one_prompt(
    client: httpx.Client, engine: ScriptedEngine
) -> None:
    engine.requests.clear()
    answer = client.post(URL, json=CHAT | {"n": 3, "seed": 7}).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [(config.seed, choice) for _, config, choice in engine.requests] == [(7, 0), (7, 1), (7, 2)]
    assert answer["usage"] == USAGE | {"prompt_tokens": 8, "completion_tokens": 18, "total_tokens": 26}


def test_a_conversation_reaches_the_engine_whole(client: httpx.Client, engine: ScriptedEngine) -> None:
    engine.requests.clear()
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    client.post(URL, json=CHAT | {"messages": messages})
    assert engine.requests[0][0] == "system: Be brief.\nuser: a\nb"


def test_bad_words_as_text_are_banned_with_and_without_a_space_before(
    client: httpx.Client, engine: ScriptedEngine
) -> None:
    engine.requests.clear()
    answer = client.post(URL, json=CHAT | {"bad_words": ["no", [1, 2]], "max_tokens": 1})
    assert answer.status_code == 200
    assert engine.requests[0][1].bad_words == ((1, 2), tuple(b"no"), tuple(b" no"))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_conversation_that_does_not_fit_is_told_both_counts(client: httpx.Client, streamed: bool) -> None:
    messages = [{"role": "user", "content": "x" * 200}]
    response = client.post(URL, json=CHAT | {"messages": messages, "stream": streamed})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert response.json()["error"]["param"] == "messages"
    assert "maximum context length is 128 tokens" in response.json()["error"]["message"]
    assert "206 tokens" in response.json()["error"]["message"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", ["nope", "openai/gpt-4o", "", "../demo", "x" * 100_000, "\0"])
def test_an_unknown_model_is_told_which_there_are(client: httpx.Client, model: str, streamed: bool) -> None:
    response = client.post(URL, json=CHAT | {"model": model, "stream": streamed})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert response.json()["error"]["param"] == "model"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"logit_bias": {"257": 1}}, "logit_bias"),
        ({"bad_words": [[999]]}, "bad_words"),
        ({"logit_bias": {str(token): -float(10**300) for token in range(3)}}, None),
    ],
)
def test_a_value_out_of_range_is_refused_under_its_own_name(
    client: httpx.Client, changes: dict[str, object], param: str | None, streamed: bool
) -> None:
    response = client.post(URL, json=CHAT | changes | {"stream": streamed})
    assert response.status_code == (200 if param is None else 400)
    if param is not None:
        assert response.json()["error"]["param"] == param


def test_the_fingerprint_is_that_of_the_model(client: httpx.Client) -> None:
    first, second, other = (
        client.post(URL, json=CHAT | {"model": model}).json()["system_fingerprint"]
        for model in ("demo", "demo", "other")
    )
    assert first == second == other  # the two models have the same weights


@pytest.mark.parametrize(("tokens", "cached", "each"), [(4, 0, (200.0, 500.0)), (0, 8, (0.0, 0.0))])
def test_the_time_of_a_token_is_told_and_is_0_without_tokens(
    tokens: int, cached: int, each: tuple[float, float]
) -> None:
    told = timings(
        [
            Generation(
                tokens=(65,) * tokens,
                text="A" * tokens,
                stop_reason=StopReason.MAX_TOKENS,
                stop=None,
                prompt_tokens=8 if cached else 10,
                cached_tokens=cached,
                prefill_seconds=2.0,
                decode_seconds=2.0,
            )
        ]
    )
    assert (told["prompt_per_token_ms"], told["predicted_per_token_ms"]) == each


def test_guessed_tokens_are_told_where_there_were_some() -> None:
    answer = Generation((65, 66), "AB", StopReason.MAX_TOKENS, None, 10, 1.0, 1.0)
    assert not {"draft_n", "draft_n_accepted"} & timings([answer]).keys()
    told = timings([answer, replace(answer, drafted_tokens=5, accepted_tokens=2)])
    assert (told["draft_n"], told["draft_n_accepted"]) == (5, 2)
