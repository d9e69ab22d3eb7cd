"""What a conversation may be, and what is said of one that may not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidConversation, InvalidParameter
from rase_models.chat import ChatTemplate
from rase_models.chat.messages import plain_messages

ECHO = ChatTemplate("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}")
OK = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages: expected at least one message"),
        ("hi", "messages: expected a list"),
        ({"role": "user"}, "messages: expected a list"),
        (None, "messages: expected a list of messages, found null"),
        ([OK, "hi"], r"messages\[1\]: expected an object"),
        ([OK, {"content": "hi"}], r"messages\[1\]: unknown role None"),
        (
            [{"role": "robot", "content": "hi"}],
            r"messages\[0\]: unknown role 'robot', expected one of system",
        ),
        ([{"role": ["user"], "content": "hi"}], r"messages\[0\]: unknown role"),
        ([OK, {"role": "user"}], r"messages\[1\]: content is missing"),
        ([{"role": "assistant", "content": None}], r"messages\[0\]: content is missing"),
        ([{"role": "user", "content": 3}], r"messages\[0\]: content: expected a string or a list"),
        (
            [{"role": "user", "content": {"a": 1}}],
            r"messages\[0\]: content: .* found an object with the keys 'a'",
        ),
        ([{"role": "user", "content": b"hi"}], r"messages\[0\]: content: .* found bytes"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            r"messages\[0\]: content\[0\]: .* found a part of type 'image_url'",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], r"messages\[0\]: content\[0\]"),
        ([{"role": "user", "content": ["hi"]}], r"messages\[0\]: content\[0\]: .* found str 'hi'"),
        ([{"role": "user", "content": "a", "x": object()}], r"messages\[0\]: expected what JSON has"),
        ([{"role": "user", "content": "a", "x": float("nan")}], r"messages\[0\]: expected what JSON has"),
    ],
)
def test_a_faulty_conversation_is_named_by_its_place(messages: Any, reason: str) -> None:
    with pytest.raises(InvalidConversation, match=reason):
        ECHO.render(messages)


def test_the_index_is_kept_for_programs() -> None:
    with pytest.raises(InvalidConversation) as caught:
        ECHO.render([OK, {"role": "user"}])
    assert (caught.value.index, caught.value.reason) == (1, "content is missing")


def test_values_nested_too_deep_are_refused() -> None:
    deep: Any = []
    for _ in range(1000):
        deep = [deep]
    with pytest.raises(InvalidConversation, match="nested more than"):
        ECHO.render([{**OK, "x": deep}])
    with pytest.raises(InvalidParameter, match="nested more than") as caught:
        ECHO.render([OK], tools=deep)
    assert caught.value.parameter == "tools"


def test_text_parts_are_joined_by_newlines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert ECHO.render([{"role": "user", "content": parts}]) == "user:a\nb;"
    assert ECHO.render([{"role": "user", "content": []}]) == "user:;"


def test_developer_is_system_where_the_template_does_not_know_it() -> None:
    message = {"role": "developer", "content": "x"}
    assert ECHO.render([message]) == "system:x;"
    assert ChatTemplate("{# developer #}{{ messages[0].role }}").render([message]) == "developer"


def test_an_assistant_that_calls_tools_needs_no_content() -> None:
    calls = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls, "name": None}
    assert plain_messages([message], knows_developer=False) == [{"role": "assistant", "tool_calls": calls}]


def test_further_variables_must_be_json() -> None:
    assert ChatTemplate("{{ x.a[1] }}").render([OK], x={"a": (1, 2)}) == "2"
    with pytest.raises(InvalidParameter, match=r"invalid x: .*expected what JSON has, found object"):
        ChatTemplate("{{ x }}").render([OK], x=object())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(JSON | st.fixed_dictionaries({"role": st.just("user") | JSON, "content": JSON}), max_size=3))
def test_any_json_is_rendered_or_refused_by_name(messages: list[Any]) -> None:
    try:
        assert isinstance(ECHO.render(messages), str)
    except InvalidConversation as error:
        assert str(error).startswith("messages")


def test_a_thought_has_every_name_that_templates_read() -> None:
    for name in ("reasoning_content", "thinking", "reasoning"):
        (message,) = plain_messages(
            [{"role": "assistant", "content": "a", name: "hm"}], knows_developer=False
        )
        assert message["reasoning_content"] == message["thinking"] == "hm"
    calls = [{"type": "function", "function": {"name": "f", "arguments": {}}}]
    (message,) = plain_messages(
        [{"role": "assistant", "content": "a", "reasoning": "hm", "tool_calls": calls}], knows_developer=False
    )
    assert "thinking" not in message and message["reasoning_content"] == "hm"
