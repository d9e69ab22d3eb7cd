"""Tools and thought over OpenAI's chat: what is asked, what comes, whole and streamed, and the history."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from rase_api.app import create_app
from rase_api.testing import ScriptedEngine, served
from rase_models import Engine
from rase_models.chat.options import ToolChoice
from rase_models.constraints import ResponseFormat
from rase_models.request import Conversation

TEMPLATE = '{# <tool_call></tool_call> "name" "arguments" #}{{ messages }}'
CALLS = (
    '<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n'
    '</tool_call>\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
USER = {"role": "user", "content": "Hi"}
CHAT: dict[str, Any] = {"model": "demo", "messages": [USER], "tools": [WEATHER, CLOCK]}
URL = "/v1/chat/completions"
MADE: dict[str, object] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
ASKED: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [MADE]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "Rain."}


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    return ScriptedEngine(CALLS, template=TEMPLATE, context_length=1000)


@pytest.fixture(scope="module")
def client(engine: ScriptedEngine) -> Iterator[httpx.Client]:
    with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def official(client: httpx.Client) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)


def asked(engine: ScriptedEngine) -> Conversation:
    question = engine.questions[-1]
    assert isinstance(question, Conversation)
    return question


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


def test_anthropics_helper_for_streams_joins_the_calls(client: httpx.Client) -> None:
    user = anthropic.Anthropic(base_url=str(client.base_url), api_key="none", max_retries=0)
    with user.messages.stream(**ANTHROPIC) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        blocks = stream.get_final_message().content
    assert len(pieces) > 5
    used = [(block.name, block.input) for block in blocks if block.type == "tool_use"]
    assert used == [("weather", {"city": "Oslo"}), ("clock", {})]


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
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
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
    assert question.options.variables == {"enable_thinking": True, "reasoning_effort": "high"}
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


INPUT = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANTHROPIC: dict[str, Any] = {
    "model": "demo",
    "max_tokens": 300,
    "messages": [USER],
    "tools": [{"name": "weather", "description": "Tells.", "input_schema": INPUT}],
}
BLOCKS = [
    {"type": "thinking", "thinking": "hm", "signature": ""},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "name": "weather", "input": {"city": "Oslo"}},
    {"type": "tool_use", "name": "clock", "input": {}},
]


def test_anthropics_messages_have_blocks(client: httpx.Client) -> None:
    answer = client.post("/v1/messages", json=ANTHROPIC).json()
    assert answer["stop_reason"] == "tool_use"
    assert [{k: v for k, v in block.items() if k != "id"} for block in answer["content"]] == BLOCKS


def test_anthropics_streams_have_blocks(client: httpx.Client) -> None:
    text = client.post("/v1/messages", json=ANTHROPIC | {"stream": True}).text
    events = [json.loads(part.partition("data: ")[2]) for part in text.strip().split("\n\n")]
    kinds = [event["type"] for event in events if event["type"] != "content_block_delta"]
    assert kinds == [
        "message_start",
        *("content_block_start", "content_block_stop") * 4,
        "message_delta",
        "message_stop",
    ]
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [(event["index"], event["content_block"]["type"]) for event in starts] == [
        *enumerate(["thinking", "text", "tool_use", "tool_use"])
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == "hm"
    assert "".join(delta.get("text", "") for delta in deltas) == "I look."
    inputs = [
        (event["index"], event["delta"]["partial_json"])
        for event in events
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta"
    ]
    joined = ["".join(piece for index, piece in inputs if index == block) for block in (2, 3)]
    assert [json.loads(text) for text in joined] == [{"city": "Oslo"}, {}]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_anthropics_history_becomes_that_of_templates(client: httpx.Client, engine: ScriptedEngine) -> None:
    used = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Rain."}]}
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    said = [{"type": "text", "text": "I look."}]
    messages = [
        USER,
        {"role": "assistant", "content": [thought, *said, used]},
        {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
    ]
    body = ANTHROPIC | {"messages": messages, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert client.post("/v1/messages", json=body | {"tool_choice": {"type": "any"}}).status_code == 200
    question = asked(engine)
    assert question.options.tool_choice == ToolChoice.REQUIRED
    assert question.options.variables == {"enable_thinking": True}
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    assert question.messages[1:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c1", "content": "Rain.", "name": "weather"},
        {"role": "user", "content": "So?"},
    ]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"tool_choice": {"type": "tool", "name": "unknown"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice"),
        ({"tools": None, "tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_what_anthropic_would_refuse_is_refused(
    client: httpx.Client, fields: dict[str, object], name: str
) -> None:
    answer = client.post("/v1/messages", json=ANTHROPIC | fields)
    assert answer.status_code == 400
    assert name in answer.json()["error"]["message"]


RESPONSE: dict[str, Any] = {
    "model": "demo",
    "input": "Hi",
    "tools": [{"type": "function", "name": "weather", "description": "Tells.", "parameters": INPUT}],
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
        ({"type": "json_schema", "name": "x", "schema": INPUT}, ResponseFormat.json_schema(INPUT)),
    ],
)
def test_formats_of_responses_reach_the_engine(
    client: httpx.Client, engine: ScriptedEngine, form: dict[str, object], expected: ResponseFormat | None
) -> None:
    body = {"model": "demo", "input": "Hi", "text": {"format": form}}
    assert client.post("/v1/responses", json=body).json()["text"]["format"]["type"] == form["type"]
    assert engine.formats[-1] == expected


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ tools | tojson }}<|im_start|>assistant\n"
)


def test_a_real_model_calls_what_it_must(tmp_path: Path, smollm2_path: Path) -> None:
    pytest.importorskip("numba", reason="needs rase-models[cpu]")
    city: dict[str, object] = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}}
    city |= {"additionalProperties": False}
    weather = {"type": "function", "function": {"name": "weather", "parameters": city}}
    must = CHAT | {"tools": [weather, CLOCK], "max_tokens": 100, "temperature": 0}
    must["parallel_tool_calls"] = False
    with Engine(tmp_path, "cpu", threads=2) as engine:
        engine.import_model(smollm2_path, "demo", chat_template=TEMPLATE.partition("{{")[0] + CHATML)
        with served(create_app(engine)) as url:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
            for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
                answer = client.chat.completions.create(**must | {"tool_choice": choice})
                (call,) = answer.choices[0].message.tool_calls
                assert answer.choices[0].finish_reason == "tool_calls"
                assert isinstance(json.loads(call.function.arguments), dict)
                assert call.function.name in ("weather", "clock")
            assert call.function.name == "clock"
