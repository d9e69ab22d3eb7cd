import json
from typing import Any, cast

import httpx
import openai
import pytest
from openai.types.responses import ResponseInputParam
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.errors import BackendFailure

BODY = {"model": "demo", "input": "Hi"}
URL = "/v1/responses"


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    blocks = response.text.split("\n\n")
    assert blocks.pop() == ""
    parsed = []
    for number, block in enumerate(blocks):
        name, data = block.split("\n")
        parsed.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {parsed[-1]['type']}"
        assert parsed[-1]["sequence_number"] == number
    return parsed


def test_an_answer_has_openais_shape(client: httpx.Client) -> None:
    answer = client.post(URL, json=BODY).json()
    assert answer["id"].startswith("resp_")
    assert (answer["object"], answer["status"], answer["model"]) == ("response", "completed", "demo")
    (item,) = answer["output"]
    assert item.pop("id").startswith("msg_")
    part = {"type": "output_text", "text": "Paris.", "annotations": [], "logprobs": []}
    assert item == {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
    assert answer["usage"] == {
        "input_tokens": 8,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 14,
    }
    assert (answer["store"], answer["previous_response_id"], answer["error"]) == (False, None, None)
    assert answer["timings"]["predicted_n"] == 6


def test_an_answer_that_was_cut_off_says_so(client: httpx.Client) -> None:
    answer = client.post(URL, json=BODY | {"max_output_tokens": 3}).json()
    assert answer["status"] == "incomplete"
    assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer["output"][0]["content"][0]["text"] == "Par"


def test_a_stream_has_openais_events_in_order(client: httpx.Client) -> None:
    parsed = events(client.post(URL, json=BODY | {"stream": True, "max_output_tokens": 2}))
    assert [event["type"].removeprefix("response.") for event in parsed] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "incomplete",
    ]
    assert [event["delta"] for event in parsed[4:6]] == ["P", "a"]
    assert parsed[6]["text"] == "Pa"
    assert parsed[0]["response"]["status"] == "in_progress"
    whole = parsed[-1]["response"]
    assert whole["id"] == parsed[0]["response"]["id"]
    assert whole["output"] == [parsed[8]["item"]]
    assert whole["usage"]["output_tokens"] == 2


def test_an_answer_without_text_still_opens_and_ends(client: httpx.Client) -> None:
    parsed = events(client.post(URL, json=BODY | {"stream": True, "max_output_tokens": 0}))
    assert [event["type"] for event in parsed][4:7] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]


def test_instructions_and_messages_become_a_conversation(
    client: httpx.Client, engine: ScriptedEngine
) -> None:
    engine.requests.clear()
    before = client.post(URL, json=BODY).json()["output"]
    given = [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, *before]
    given.append({"type": "message", "role": "developer", "content": "b"})
    client.post(URL, json=BODY | {"input": given, "instructions": "Be brief."})
    assert engine.requests[1][0] == "system: Be brief.\nuser: a\nassistant: Paris.\nsystem: b"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"tools": [{"type": "web_search", "name": "x"}]}, "tools[0].type"),
        ({"background": True}, "background"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"truncation": "auto"}, "truncation"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"temperature": "1"}, "temperature"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "text": ""}]}]}, None),
        ({"stream_options": {}}, "stream_options"),
    ],
)
def test_what_is_not_done_is_refused_by_name(
    client: httpx.Client, changes: dict[str, object], param: str | None
) -> None:
    response = client.post(URL, json=BODY | changes)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == (param or "input[0].content[0].type")


def test_what_cannot_change_the_text_is_accepted(client: httpx.Client) -> None:
    extras = {
        "store": True,
        "metadata": {"a": "b"},
        "user": "u",
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "text": {"format": {"type": "text"}},
        "parallel_tool_calls": True,
    }
    answer = client.post(URL, json=BODY | extras).json()
    assert (answer["metadata"], answer["user"], answer["store"]) == ({"a": "b"}, "u", False)


def test_nothing_is_kept(client: httpx.Client) -> None:
    identity = client.post(URL, json=BODY).json()["id"]
    assert client.get(f"{URL}/{identity}").status_code == 404


def test_the_tokens_of_the_input_are_counted(client: httpx.Client) -> None:
    answer = client.post(f"{URL}/input_tokens", json=BODY).json()
    assert answer == {"object": "response.input_tokens", "input_tokens": 8}


def test_a_failure_in_the_middle_is_the_last_event() -> None:
    def fail() -> None:
        if isinstance(engine.decoder.calls[-1], int):
            raise BackendFailure("out of memory")

    engine = ScriptedEngine(before_token=fail)
    with served(create_app(engine)) as url:
        *pieces, last = events(httpx.post(f"{url}{URL}", json=BODY | {"stream": True}))
    assert pieces[-1]["type"] == "response.output_text.delta"
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "server_error", "message": "out of memory"}


def test_the_official_client_works_unchanged(official: openai.OpenAI) -> None:
    answer = official.responses.create(model="demo", input="Hi")
    assert (answer.output_text, answer.status) == ("Paris.", "completed")
    again = [{"role": "user", "content": "Hi"}, *answer.output, {"role": "user", "content": "More"}]
    taken = cast(ResponseInputParam, again)  # items of an answer go back as they are
    assert official.responses.create(model="demo", input=taken).output_text == "Paris."
    with official.responses.stream(model="demo", input="Hi") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == "Paris."
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        official.responses.create(model="demo", input="Hi", previous_response_id="resp_1")
    with pytest.raises(openai.NotFoundError, match="registered: demo, other"):
        official.responses.create(model="nope", input="Hi")


@pytest.mark.parametrize(("path", "form"), [("/v1/embeddings", dict), ("/api/embed", str)])
def test_embeddings_are_refused_clearly(client: httpx.Client, path: str, form: type) -> None:
    response = client.post(path, json={"model": "demo", "input": "Hi"})
    assert response.status_code == 400
    assert "embedding models are not supported yet" in response.text
    assert isinstance(response.json()["error"], form)
    assert client.post(path, json={"model": "nope", "input": "Hi"}).status_code == 404
