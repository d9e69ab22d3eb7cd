"""Tools and thought over OpenAI's responses: their items, whole and streamed, and the history."""

from typing import Any

import httpx
import openai
import pytest
from rase_api.testing import ScriptedEngine
from rase_api.testing_tools import CITY, USER, asked
from rase_models.chat.options import ToolChoice
from rase_models.constraints import ResponseFormat

RESPONSE: dict[str, Any] = {
    "model": "demo",
    "input": "Hi",
    "tools": [{"type": "function", "name": "weather", "description": "Tells.", "parameters": CITY}],
}


def test_responses_have_items_whole_and_streamed(official: openai.OpenAI) -> None:
    whole = official.responses.create(**RESPONSE)
    kinds = ["reasoning", "message", "function_call", "function_call"]
    assert [item.type for item in whole.output] == kinds
    assert whole.output_text == "I look."
    assert [(item.name, item.arguments) for item in whole.output[2:]] == [
        ("weather", '{"city": "Oslo"}'),
        ("clock", "{}"),
    ]
    with official.responses.stream(**RESPONSE) as stream:
        events = list(stream)
        final = stream.get_final_response()
    added = [event.item.type for event in events if event.type == "response.output_item.added"]
    assert added == [item.type for item in final.output] == kinds
    thought = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(thought) == "hm"
    grown = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert len(grown) > 5 and "".join(grown) == '{"city": "Oslo"}{}'
    done = [event.arguments for event in events if event.type == "response.function_call_arguments.done"]
    assert done == ['{"city": "Oslo"}', "{}"]
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == sorted(
        {event.sequence_number for event in events if hasattr(event, "sequence_number")}
    )


def test_the_tokens_of_a_thought_are_counted(client: httpx.Client, official: openai.OpenAI) -> None:
    """One for each byte of the thought and the tag before it."""
    counted = len("<think>\nhm")
    whole = official.responses.create(**RESPONSE)
    with official.responses.stream(**RESPONSE) as stream:
        streamed = stream.get_final_response()
    for response in (whole, streamed):
        assert response.usage is not None
        assert response.usage.output_tokens_details.reasoning_tokens == counted
    chat = {"model": "demo", "messages": [USER], "n": 2}
    usage = client.post("/v1/chat/completions", json=chat).json()["usage"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2 * counted}


@pytest.mark.parametrize("most", [9, 10, 12])
def test_the_tokens_of_a_thought_that_is_cut_off_are_counted(client: httpx.Client, most: int) -> None:
    usage = client.post("/v1/responses", json=RESPONSE | {"max_output_tokens": most}).json()["usage"]
    assert usage["output_tokens"] == most
    assert 9 <= usage["output_tokens_details"]["reasoning_tokens"] <= most


def test_items_of_a_response_go_back_into_the_history(client: httpx.Client, engine: ScriptedEngine) -> None:
    output = client.post("/v1/responses", json=RESPONSE).json()["output"]
    calls = [item for item in output if item["type"] == "function_call"]
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."} for call in calls
    ]
    history = [USER, *output, *results]
    body = RESPONSE | {"input": history, "reasoning": {"effort": "low"}, "tool_choice": "required"}
    assert client.post("/v1/responses", json=body).status_code == 200
    question = asked(engine)
    _, answer, *told = question.messages
    assert (answer["content"], answer["reasoning_content"]) == ("I look.", "hm")
    assert isinstance(answer["tool_calls"], list)
    names = [call["function"]["name"] for call in answer["tool_calls"]]
    assert names == ["weather", "clock"] == [result["name"] for result in told]
    assert question.options.variables == {"reasoning_effort": "low"}
    assert question.options.tool_choice == ToolChoice.REQUIRED


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [{"type": "function_call", "call_id": "a", "name": "b"}]}, "input[0].arguments"),
        (
            {
                "input": [
                    {"type": "function_call", "call_id": "a", "name": "b", "arguments": '{"a": "\\ud800"}'}
                ]
            },
            "input[0].arguments",
        ),
        (
            {"input": [{"type": "function_call", "call_id": "a", "name": "b", "arguments": "{"}]},
            "input[0].arguments",
        ),
        ({"input": [{"type": "function_call_output", "output": "b"}]}, "input[0].call_id"),
        ({"input": [{"content": "b"}]}, "input[0].role"),
        ({"tool_choice": {"type": "function", "name": "unknown"}}, "tool_choice"),
    ],
)
def test_what_responses_would_refuse_is_refused(
    client: httpx.Client, fields: dict[str, object], param: str
) -> None:
    answer = client.post("/v1/responses", json=RESPONSE | fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, ResponseFormat.json_object()),
        ({"type": "json_schema", "name": "x", "schema": CITY}, ResponseFormat.json_schema(CITY)),
    ],
)
def test_formats_of_responses_reach_the_engine(
    client: httpx.Client, engine: ScriptedEngine, form: dict[str, object], expected: ResponseFormat | None
) -> None:
    body = {"model": "demo", "input": "Hi", "text": {"format": form}}
    assert client.post("/v1/responses", json=body).json()["text"]["format"]["type"] == form["type"]
    assert engine.formats[-1] == expected
