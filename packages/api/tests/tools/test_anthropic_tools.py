"""Tools and thought over Anthropic's messages: their blocks, whole and streamed, and the history."""

import json
from typing import Any

import anthropic
import httpx
import pytest
from rase_api.testing import ScriptedEngine
from rase_api.testing_tools import CITY, USER, asked
from rase_models.chat.options import ToolChoice

ANTHROPIC: dict[str, Any] = {
    "model": "demo",
    "max_tokens": 300,
    "messages": [USER],
    "tools": [{"name": "weather", "description": "Tells.", "input_schema": CITY}],
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


def test_anthropics_helper_for_streams_joins_the_calls(client: httpx.Client) -> None:
    user = anthropic.Anthropic(base_url=str(client.base_url), api_key="none", max_retries=0)
    with user.messages.stream(**ANTHROPIC) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        blocks = stream.get_final_message().content
    assert len(pieces) > 5
    used = [(block.name, block.input) for block in blocks if block.type == "tool_use"]
    assert used == [("weather", {"city": "Oslo"}), ("clock", {})]
