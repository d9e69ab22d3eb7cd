"""Tools and thought over OpenAI's chat and Ollama's: what is asked, what comes, and the history."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from rase_api.app import create_app
from rase_api.testing import ScriptedEngine, served
from rase_api.testing_tools import CLOCK, TEMPLATE, USER, WEATHER, asked
from rase_models import Engine
from rase_models.chat.options import ToolChoice
from rase_models.constraints import ResponseFormat

CHAT: dict[str, Any] = {"model": "demo", "messages": [USER], "tools": [WEATHER, CLOCK]}
URL = "/v1/chat/completions"
MADE: dict[str, object] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
ASKED: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [MADE]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "Rain."}


def test_a_whole_answer_has_thought_content_and_calls(client: httpx.Client) -> None:
    (choice,) = client.post(URL, json=CHAT).json()["choices"]
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls"
    assert message["reasoning_content"] == message["reasoning"] == "hm"
    assert message["content"] == "I look."
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "weather", "arguments": '{"city": "Oslo"}'},
        {"name": "clock", "arguments": "{}"},
    ]
    assert {call["type"] for call in message["tool_calls"]} == {"function"}
    assert len({call["id"] for call in message["tool_calls"]}) == 2


def test_a_stream_has_them_in_openais_order(official: openai.OpenAI) -> None:
    stream = official.chat.completions.create(**CHAT, stream=True)
    deltas = [(chunk.choices[0].delta, chunk.choices[0].finish_reason) for chunk in stream]
    thought = "".join(delta.model_extra.get("reasoning_content", "") for delta, _ in deltas)
    calls = [call for delta, _ in deltas for call in delta.tool_calls or ()]
    assert thought == "hm"
    assert "".join(delta.content or "" for delta, _ in deltas) == "I look."
    assert deltas[-1][1] == "tool_calls"
    names = [(call.index, call.function.name, call.function.arguments) for call in calls if call.id]
    assert names == [(0, "weather", ""), (1, "clock", "")]
    pieces = [(call.index, call.function.arguments) for call in calls if not call.id]
    assert len(pieces) > 5
    assert "".join(piece for index, piece in pieces if index == 0) == '{"city": "Oslo"}'
    assert "".join(piece for index, piece in pieces if index == 1) == "{}"


def test_openais_helper_for_streams_joins_the_calls(official: openai.OpenAI) -> None:
    with official.chat.completions.stream(**CHAT) as stream:
        grown = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
        message = stream.get_final_completion().choices[0].message
    assert "".join(e.arguments_delta for e in grown if e.name == "weather") == '{"city": "Oslo"}'
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls or ()] == [
        ("weather", '{"city": "Oslo"}'),
        ("clock", "{}"),
    ]


def test_without_tools_the_answer_is_text(client: httpx.Client) -> None:
    without: list[dict[str, object]] = [{"tools": None}, {"tools": []}, {"tool_choice": "none"}]
    for body in without:
        (choice,) = client.post(URL, json=CHAT | body).json()["choices"]
        assert "tool_calls" not in choice["message"]
        assert choice["message"]["content"].startswith("I look.\n<tool_call>")
        assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "choice", "parallel"),
    [
        ({}, ToolChoice.AUTO, True),
        ({"tool_choice": "required"}, ToolChoice.REQUIRED, True),
        ({"tool_choice": {"type": "function", "function": {"name": "clock"}}}, "clock", True),
        ({"parallel_tool_calls": False}, ToolChoice.AUTO, False),
    ],
)
def test_the_choice_of_tools_reaches_the_engine(
    client: httpx.Client, engine: ScriptedEngine, fields: dict[str, object], choice: str, parallel: bool
) -> None:
    assert client.post(URL, json=CHAT | fields).status_code == 200
    options = asked(engine).options
    assert [tool.name for tool in options.tools] == ["weather", "clock"]
    assert (options.tool_choice, options.parallel_tool_calls) == (choice, parallel)


@pytest.mark.parametrize(
    ("fields", "variables"),
    [
        ({}, {}),
        ({"enable_thinking": False}, {"enable_thinking": False}),
        ({"chat_template_kwargs": {"a": [1]}}, {"a": [1]}),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
    ],
)
def test_the_template_gets_its_variables(
    client: httpx.Client, engine: ScriptedEngine, fields: dict[str, object], variables: dict[str, object]
) -> None:
    assert client.post(URL, json=CHAT | fields).status_code == 200
    assert asked(engine).options.variables == variables


def test_calls_and_their_results_go_back_into_the_history(
    client: httpx.Client, engine: ScriptedEngine
) -> None:
    thought = ASKED | {"reasoning_content": "hm"}
    assert client.post(URL, json=CHAT | {"messages": [USER, thought, TOLD]}).status_code == 200
    _, call, result = asked(engine).messages
    assert call["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    ]
    assert call["reasoning_content"] == "hm"
    assert result == {"role": "tool", "tool_call_id": "c1", "content": "Rain.", "name": "weather"}


def test_tools_and_a_format_reach_the_engine_together(client: httpx.Client, engine: ScriptedEngine) -> None:
    form = {"response_format": {"type": "json_object"}}
    assert client.post(URL, json=CHAT | form).status_code == 200
    question = asked(engine)
    assert question.options.tools and question.terms.response_format == ResponseFormat.json_object()


def broken(arguments: str) -> dict[str, object]:
    function = {"name": "weather", "arguments": arguments}
    return ASKED | {"tool_calls": [MADE, MADE | {"function": function}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [USER, broken('{"a"')]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER, broken("[1]")]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER, broken("[" * 5000)]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER, broken('{"a": 1, "a": 1}')]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER, broken('{"a": ["\\ud800"]}')]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER, broken('{"\\udc00": 1}')]}, "messages[1].tool_calls[1].function.arguments"),
        ({"messages": [USER | {"tool_calls": [MADE]}]}, "messages[0].tool_calls"),
        ({"messages": [USER | {"tool_call_id": "x"}]}, "messages[0].tool_call_id"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "unknown"}}}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [CLOCK, CLOCK]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
        ({"tools": [CLOCK | {"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    client: httpx.Client, fields: dict[str, object], param: str
) -> None:
    answer = client.post(URL, json=CHAT | fields)
    assert answer.status_code == 400
    assert json.loads(answer.text)["error"]["param"].startswith(param)


def test_tools_that_the_template_cannot_call_are_refused() -> None:
    with served(create_app(ScriptedEngine())) as url:
        for stream in (False, True):
            answer = httpx.post(f"{url}{URL}", json=CHAT | {"stream": stream})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")


OLLAMA = {"model": "demo", "messages": [USER], "tools": [WEATHER, CLOCK]}


def test_ollamas_chat_has_them_in_its_own_words(client: httpx.Client) -> None:
    answer = client.post("/api/chat", json=OLLAMA | {"stream": False}).json()
    message = answer["message"]
    assert (message["content"], message["thinking"]) == ("I look.", "hm")
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [{"city": "Oslo"}, {}]
    lines = [json.loads(line) for line in client.post("/api/chat", json=OLLAMA).text.splitlines()]
    assert "".join(line["message"]["content"] for line in lines) == "I look."
    assert "".join(line["message"].get("thinking", "") for line in lines) == "hm"
    calls = [call["function"]["name"] for line in lines for call in line["message"].get("tool_calls", ())]
    assert calls == ["weather", "clock"]


def test_ollamas_history_and_settings_reach_the_engine(client: httpx.Client, engine: ScriptedEngine) -> None:
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    asked_for = {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [call]}
    told = {"role": "tool", "content": "Rain.", "tool_name": "weather"}
    body = OLLAMA | {"messages": [USER, asked_for, told], "think": "high"}
    assert client.post("/api/chat", json=body).status_code == 200
    question = asked(engine)
    assert question.options.variables == {"reasoning_effort": "high"}
    assert question.messages[1]["reasoning_content"] == "hm"
    assert question.messages[2] == {"role": "tool", "content": "Rain.", "name": "weather"}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("json", ResponseFormat.json_object()),
        ({"type": "integer"}, ResponseFormat.json_schema({"type": "integer"})),
        ("", None),
    ],
)
def test_ollamas_formats_reach_the_engine(
    client: httpx.Client, engine: ScriptedEngine, value: object, form: ResponseFormat | None
) -> None:
    for url, body in (("/api/chat", {"messages": [USER]}), ("/api/generate", {"prompt": "Hi"})):
        assert client.post(url, json={"model": "demo", "format": value} | body).status_code == 200
        assert engine.formats[-1] == form


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ tools | tojson }}<|im_start|>assistant\n"
)


@pytest.fixture
def caller_url(tmp_path: Path, smollm2_path: Path) -> Iterator[str]:
    """The address of a server whose real model has a template that teaches calls."""
    pytest.importorskip("numba", reason="needs rase-models[cpu]")
    with Engine(tmp_path, "cpu", threads=2) as engine:
        engine.import_model(smollm2_path, "demo", chat_template=TEMPLATE.partition("{{")[0] + CHATML)
        with served(create_app(engine)) as url:
            yield url


def test_tools_that_are_nested_too_deep_are_named(caller_url: str) -> None:
    deep: dict[str, object] = {"type": "object"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    error = httpx.post(f"{caller_url}/v1/chat/completions", json=CHAT | {"tools": [tool]}).json()["error"]
    assert error["param"] == "tools" and "nested more than 32 deep" in error["message"]


def test_a_real_model_calls_what_it_must(caller_url: str) -> None:
    city: dict[str, object] = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}}
    city |= {"additionalProperties": False}
    weather = {"type": "function", "function": {"name": "weather", "parameters": city}}
    must = CHAT | {"tools": [weather, CLOCK], "max_tokens": 100, "temperature": 0}
    must["parallel_tool_calls"] = False
    client = openai.OpenAI(base_url=f"{caller_url}/v1", api_key="none", max_retries=0)
    for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
        answer = client.chat.completions.create(**must | {"tool_choice": choice})
        (call,) = answer.choices[0].message.tool_calls
        assert answer.choices[0].finish_reason == "tool_calls"
        assert isinstance(json.loads(call.function.arguments), dict)
        assert call.function.name in ("weather", "clock")
    assert call.function.name == "clock"
