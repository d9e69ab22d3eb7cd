import pytest
from rase_api.errors import (
    InvalidType,
    InvalidValue,
    MissingParameter,
    RequestError,
    UnknownParameter,
    UnsupportedParameter,
)
from rase_api.schemas import ChatRequest, CompletionRequest

USER = {"role": "user", "content": "Hi"}
CHAT = {"model": "demo", "messages": [USER]}
COMPLETION = {"model": "demo", "prompt": "Hi"}


def chat(*messages: object) -> ChatRequest:
    return ChatRequest.parse({"model": "demo", "messages": list(messages)})


@pytest.mark.parametrize(
    "no_op",
    [
        {"logprobs": False},
        {"top_logprobs": 0},
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "none"},
        {"tool_choice": "auto"},
        {"parallel_tool_calls": True},
        {"functions": []},
        {"modalities": ["text"]},
        {"verbosity": "medium"},
        {"chat_template_kwargs": {}},
    ],
    ids=str,
)
def test_a_feature_that_is_asked_for_in_vain_is_accepted_in_chat(no_op: dict[str, object]) -> None:
    ChatRequest.parse(CHAT | no_op)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("verbosity", "low"),
        ("modalities", ["text", "audio"]),
        ("audio", {}),
        ("prediction", {}),
        ("web_search_options", {}),
        ("add_generation_prompt", False),
        ("dry_sequence_breakers", ["\n"]),
    ],
)
def test_a_feature_that_chat_does_not_have_is_refused(name: str, value: object) -> None:
    with pytest.raises(UnsupportedParameter, match=f"'{name}'") as failure:
        ChatRequest.parse(CHAT | {name: value})
    assert failure.value.param == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("suffix", "x"), ("best_of", 2)],
)
def test_a_feature_that_completions_do_not_have_is_refused(name: str, value: object) -> None:
    with pytest.raises(UnsupportedParameter, match=f"'{name}'") as failure:
        CompletionRequest.parse(COMPLETION | {name: value})
    assert failure.value.param == name


@pytest.mark.parametrize("no_op", [{"suffix": ""}, {"echo": False}, {"best_of": 1}], ids=str)
def test_a_feature_that_is_asked_for_in_vain_is_accepted_in_completions(no_op: dict[str, object]) -> None:
    CompletionRequest.parse(COMPLETION | no_op)


def test_text_parts_are_joined_by_newlines() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}]
    assert chat({"role": "user", "content": parts}).turns() == [{"role": "user", "content": "a\nb"}]


def test_a_developer_speaks_as_the_system() -> None:
    assert chat({"role": "developer", "content": "Be brief."}, USER).turns()[0]["role"] == "system"


def test_a_name_goes_to_the_template() -> None:
    assert chat(USER | {"name": "Ada"}).turns() == [USER | {"name": "Ada"}]


def test_an_answer_can_be_sent_back_as_it_came() -> None:
    answer: dict[str, object] = {
        "role": "assistant",
        "content": "Paris.",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    assert chat(USER, answer, USER).turns()[1] == {"role": "assistant", "content": "Paris."}


@pytest.mark.parametrize(
    ("message", "error", "param"),
    [
        ({"role": "user"}, RequestError, "messages[1].content"),
        ({"content": "x"}, RequestError, "messages[1].role"),
        ({"role": "king", "content": "x"}, InvalidValue, "messages[1].role"),
        ({"role": ["user"], "content": "x"}, InvalidValue, "messages[1].role"),
        ({"role": "user", "content": "x", "tool_call_id": "1"}, InvalidValue, "messages[1].tool_call_id"),
        ({"role": "function", "content": "x"}, UnsupportedParameter, "messages[1].role"),
        ({"role": "user", "content": None}, InvalidValue, "messages[1].content"),
        ({"role": "user", "content": 5}, InvalidType, "messages[1].content"),
        ({"role": "user", "content": {}}, InvalidType, "messages[1].content"),
        ({"role": "user", "content": ["x"]}, InvalidType, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, RequestError, "messages[1].content[0].text"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            UnsupportedParameter,
            "messages[1].content[0].type",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{}]},
            MissingParameter,
            "messages[1].tool_calls[0].function",
        ),
        ({"role": "user", "content": "x", "mood": "good"}, UnknownParameter, "messages[1].mood"),
        ("Hi", InvalidType, "messages[1]"),
    ],
)
def test_a_bad_message_is_refused_at_its_place(
    message: object, error: type[RequestError], param: str
) -> None:
    with pytest.raises(error) as failure:
        chat(USER, message)
    assert failure.value.param == param


@pytest.mark.parametrize("messages", [[], None, "Hi", {}, 5])
def test_a_conversation_is_a_list_that_is_not_empty(messages: object) -> None:
    with pytest.raises(RequestError) as failure:
        ChatRequest.parse({"model": "demo", "messages": messages})
    assert failure.value.param == "messages"


def test_only_an_answer_can_be_continued() -> None:
    begun = {"role": "assistant", "content": "The"}
    body = {"model": "demo", "messages": [USER, begun], "continue_final_message": True}
    assert ChatRequest.parse(body).continue_final_message
    with pytest.raises(InvalidValue, match="continue_final_message"):
        ChatRequest.parse(body | {"messages": [USER]})


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", ["Hi"]),
        ("", [""]),
        (["Hi"], ["Hi"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        (["a", [1]], ["a", (1,)]),
    ],
)
def test_a_prompt_is_text_or_tokens_once_or_several_times(prompt: object, expected: list[object]) -> None:
    assert CompletionRequest.parse({"model": "demo", "prompt": prompt}).prompts() == expected


@pytest.mark.parametrize(
    "prompt", [None, 5, True, {}, [], [True], [1.5], [None], [1, "a"], [["a"]], ["a"] * 2049]
)
def test_anything_else_is_no_prompt(prompt: object) -> None:
    with pytest.raises(RequestError) as failure:
        CompletionRequest.parse({"model": "demo", "prompt": prompt})
    assert failure.value.param == "prompt"
