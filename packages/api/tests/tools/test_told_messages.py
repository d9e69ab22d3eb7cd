"""The log probabilities of a response are those of its message, whatever else the answer has."""

from typing import Any

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_api.testing_tools import CITY, TEMPLATE

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
BODY: dict[str, Any] = {
    "model": "demo",
    "input": "Hi",
    "tools": [{"type": "function", "name": "weather", "parameters": CITY}],
    "include": ["message.output_text.logprobs"],
}


@pytest.mark.parametrize(
    ("answer", "messages"),
    [
        ("<think>\nk or A\n</think>\n\nA", ["A"]),
        ("<think>k</think>k", ["k"]),
        (f"A{CALL}", ["A"]),
        (f"It is{CALL}Os", ["It is", "Os"]),
        (f"<think>Oslo</think>Os{CALL}\nlo", ["Os", "lo"]),
        (CALL, []),
    ],
)
def test_a_message_has_the_log_probabilities_of_its_own_text(answer: str, messages: list[str]) -> None:
    with served(create_app(ScriptedEngine(answer, template=TEMPLATE, context_length=1000))) as url:
        whole = httpx.post(f"{url}/v1/responses", json=BODY).json()
        stream = httpx.post(f"{url}/v1/responses", json=BODY | {"stream": True}).text
    assert "".join(text for text, _ in told(whole["output"])) == "".join(messages)
    for text, tokens in told(whole["output"]):
        assert "".join(tokens) == text
    *_, last = [line for line in stream.splitlines() if line.startswith("data: ")]
    streamed = told(httpx.Response(200, text=last.removeprefix("data: ")).json()["response"]["output"])
    assert [text.strip() for text, _ in streamed] == messages
    for text, tokens in streamed:
        assert "".join(tokens) == text


def told(output: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the text of each message, and the tokens that are told of it."""
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    return [(part["text"], [entry["token"] for entry in part["logprobs"]]) for part in parts]
