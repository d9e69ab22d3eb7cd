"""Calls of earlier answers, where a template teaches calls and leaves those of messages out."""

from typing import Any

import pytest
from rase_models.chat import ChatTemplate

WRITE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
SIGNS = {
    "lfm2": "{# <|tool_call_start|> #}",
    "granite": "{# <|tool_call|> #}",
    "hermes": '{# <tool_call> </tool_call> "name" "arguments" #}',
}
CALLS = {
    "lfm2": '<|tool_call_start|>[weather(city="Zürich", days=[1, null]), clock()]<|tool_call_end|>',
    "granite": '<|tool_call|>[{"name": "weather", "arguments": {"city": "Zürich", "days": [1, null]}}, '
    '{"name": "clock", "arguments": {}}]',
    "hermes": '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": [1, null]}}\n'
    '</tool_call>\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
}
ARGUMENTS = {"city": "Zürich", "days": [1, None]}


def call(name: object, arguments: object) -> dict[str, object]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def rendered(source: str, calls: list[Any], **message: object) -> str:
    turns: list[dict[str, object]] = [
        {"role": "assistant", "tool_calls": calls, **message},
        {"role": "tool", "content": "rain"},
    ]
    return ChatTemplate(source).render(turns, add_generation_prompt=False)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("message", [{}, {"content": ""}, {"content": "I look. "}])
def test_calls_stand_behind_the_content_as_the_model_writes_them(
    name: str, message: dict[str, object]
) -> None:
    text = rendered(SIGNS[name] + WRITE, [call("weather", ARGUMENTS), call("clock", {})], **message)
    assert text == f"<assistant>{message.get('content', '')}{CALLS[name]}<tool>rain"


def test_arguments_may_be_json_as_text() -> None:
    text = rendered(SIGNS["lfm2"] + WRITE, [call("clock", '{"utc": true}')])
    assert text == "<assistant><|tool_call_start|>[clock(utc=true)]<|tool_call_end|><tool>rain"


def test_a_template_that_reads_calls_is_given_them_alone() -> None:
    source = SIGNS["hermes"] + WRITE + "{{ messages[0].tool_calls | length }}"
    assert rendered(source, [call("clock", {})], content="I look.") == "<assistant>I look.<tool>rain1"


@pytest.mark.parametrize("odd", [3, {}, {"function": 3}, call(3, {}), call("clock", 3), call("clock", "{")])
def test_what_is_no_call_is_left_to_the_template(odd: object) -> None:
    assert rendered(SIGNS["lfm2"] + WRITE, [odd], content="I look.") == "<assistant>I look.<tool>rain"


def test_a_template_that_teaches_no_calls_is_given_messages_as_they_are() -> None:
    assert rendered(WRITE, [call("clock", {})], content="I look.") == "<assistant>I look.<tool>rain"
