"""Answers that are held to a format or to calls are what the rules had them be, whatever they spell."""

import json
from collections.abc import Iterable

import pytest
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import Content, Part, Reasoning, ToolCall, merged
from rase_models.chat.reasoning import THINK, Held, begins_untold
from rase_models.chat.reply import Reading
from rase_models.chat.tool_calls import Tool

HERMES = '<tool_call></tool_call> "name" "arguments" <think></think>'
HARMONY = "<|channel|><|message|>"
TEMPLATES = {
    "hermes": (HERMES, '<tool_call>\n{"name": "f", "arguments": ', "}\n</tool_call>"),
    "mistral": ("[TOOL_CALLS][ARGS]", "[TOOL_CALLS]f[ARGS]", ""),
    "mistral-list": ("[TOOL_CALLS]", '[TOOL_CALLS][{"name": "f", "arguments": ', "}]"),
    "llama": ('"parameters": <|start_header_id|>', '{"name": "f", "parameters": ', "}"),
    "harmony": (HARMONY, "<|channel|>commentary to=functions.f<|message|>", ""),
}
TOOL = Tool("f", "", {"type": "object", "properties": {"a": {"type": "string"}}})
AUTO = ChatOptions(tools=(TOOL,))
REQUIRED = ChatOptions(tools=(TOOL,), tool_choice="required")
HELD, THOUGHTLESS = Held(may_think=True), Held(may_think=False)


def streamed(reading: Reading, pieces: Iterable[str]) -> list[Part]:
    reader = reading.reader()
    parts = [part for piece in pieces for part in reader.push(piece)]
    return merged(parts + reader.finish())


def read(reading: Reading, text: str) -> tuple[str, str, list[str]]:
    """Return thought, content and arguments, which come alike whole, in pieces and in letters."""
    reply = reading.read(text)
    whole = reply.reasoning, reply.content, [call.arguments for call in reply.tool_calls]
    for pieces in ([text], text, [text[at : at + 7] for at in range(0, len(text), 7)]):
        parts = streamed(reading, pieces)
        thought = "".join(part.text for part in parts if isinstance(part, Reasoning))
        said = "".join(part.text for part in parts if isinstance(part, Content))
        calls = [part.arguments for part in parts if isinstance(part, ToolCall)]
        assert (thought, said, calls) == whole
    return whole


SAID = [
    '"a</think>b"',
    '"</think>"',
    '"<think>a</think>b"',
    "\n</think>\n x ",
    "a <think>b",
    " <think>a</think>b",
    "</think></think>",
    " ",
    '"<tool_call>{}</tool_call> "',
]


@pytest.mark.parametrize("options", [ChatOptions(), AUTO])
@pytest.mark.parametrize("said", SAID)
def test_what_a_format_has_is_content_as_it_is(said: str, options: ChatOptions) -> None:
    dialect = chat_dialect(HERMES)
    for held in (HELD, THOUGHTLESS):
        assert read(dialect.reading("", options, held=held), said) == ("", said, [])
    assert read(dialect.reading("", options, held=HELD), f"<think>\nhm\n</think>{said}") == ("hm", said, [])
    assert read(dialect.reading("<think>\n", options, held=HELD), f"hm\n</think>{said}") == ("hm", said, [])


def test_a_model_whose_thoughts_have_no_tokens_thinks_none_before_a_format() -> None:
    said = "<think>a</think>b"
    assert read(chat_dialect(HERMES).reading("", ChatOptions(), held=THOUGHTLESS), said) == ("", said, [])


def test_a_format_of_harmony_may_have_its_markers() -> None:
    said = '"a<|end|><|start|>assistant<|channel|>analysis<|message|>b"'
    answer = f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{said}"
    for options in (ChatOptions(), AUTO):
        assert read(chat_dialect(HARMONY).reading("", options, held=HELD), answer) == ("hm", said, [])


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(
    "value",
    ["</think>x", "<think>x</think>", "</tool_call>", "<|end|>", "<|call|>", "[ARGS]", '"</think>"', "\\"],
)
def test_an_argument_may_have_any_tag(name: str, value: str) -> None:
    template, before, behind = TEMPLATES[name]
    arguments = json.dumps({"a": value})
    answer = f"{before}{arguments}{behind}"
    for options, held in ((AUTO, None), (REQUIRED, HELD), (AUTO, HELD), (REQUIRED, THOUGHTLESS)):
        reading = chat_dialect(template).reading("", options, held=held)
        assert read(reading, answer) == ("", "", [arguments])


def test_a_call_comes_where_calls_or_a_format_may() -> None:
    reading = chat_dialect(HERMES).reading("", AUTO, held=HELD)
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "</think>"}}\n</tool_call>'
    assert read(reading, f"<think>hm</think>{call}") == ("hm", "", ['{"a": "</think>"}'])
    assert read(reading, f'"{call}"') == ("", f'"{call}"', [])
    assert read(reading, "<tool") == ("", "<tool", [])


def test_text_before_a_call_may_still_end_a_thought_that_began_untold() -> None:
    reply = (
        chat_dialect(HERMES)
        .reading("", AUTO)
        .read(f"hm</think>Yes.{TEMPLATES['hermes'][1]}{{}}}}</tool_call>")
    )
    assert (reply.reasoning, reply.content, len(reply.tool_calls)) == ("hm", "Yes.", 1)
    assert begins_untold(THINK, "{hm</think>Yes.")
