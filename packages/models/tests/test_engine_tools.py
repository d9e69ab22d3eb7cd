"""A real model made to call tools in the ways of every family, and to think before it keeps to a format."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rase_core.errors import InvalidParameter, UnenforceableFormat
from rase_core.sampling import GenerationConfig
from rase_models import Engine
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import ToolCall
from rase_models.chat.tool_calls import CallGrammar, Tool
from rase_models.chat.tool_calls.table import FORMATS
from rase_models.constraints import ResponseFormat

pytest.importorskip("numba", reason="needs rase-models[cpu]")

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}<|im_start|>assistant\n"
)
SIGNS = {
    "harmony": "<|channel|><|message|>",
    "deepseek": "<｜tool▁call▁begin｜> ```json",
    "deepseek-3.1": "<｜tool▁call▁begin｜>",
    "minimax": "<minimax:tool_call><invoke name=",
    "deepseek-3.2": "｜DSML｜function_calls>",
    "deepseek-4": "｜DSML｜invoke name=",
    "kimi": "<|tool_call_argument_begin|>",
    "mistral": "[TOOL_CALLS][ARGS]",
    "mistral-list": "[TOOL_CALLS]",
    "seed": "<seed:tool_call><function=",
    "qwen-coder": "<tool_call><function=<parameter=",
    "glm": "<tool_call><arg_key>",
    "gemma": "<|tool_call>call:",
    "function-gemma": "<start_function_call>",
    "phi": "<|/tool_call|>",
    "granite": "<|tool_call|>",
    "lfm2": "<|tool_call_start|>",
    "apriel": "<tool_calls>[</tool_calls>",
    "nemotron": "<TOOLCALL>",
    "cohere": "<|START_ACTION|>",
    "hermes": '<tool_call></tool_call>"name""arguments"',
    "llama-pythonic": "[func_name1(",
    "llama": '"parameters":<|python_tag|>',
}
CITY = {"type": "string", "maxLength": 12}
WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {"city": CITY, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
CLOCK = Tool("clock", "Tells the time.", {"type": "object", "properties": {"utc": {"type": "boolean"}}})
MESSAGES = [{"role": "user", "content": "What will the weather be like in Oslo, the next 3 days?"}]
GREEDY = GenerationConfig(temperature=0, max_tokens=160)
DRAWN = GenerationConfig(temperature=1, seed=1, max_tokens=160)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("store"), "cpu", threads=2) as engine:
        for name in ("hermes", "qwen-coder"):
            engine.import_model(smollm2_path, name, chat_template=f"{{# {SIGNS[name]} #}}{CHATML}")
        engine.import_model(smollm2_path, "plain", chat_template=CHATML)
        engine.import_model(smollm2_path, "open", chat_template=f"{CHATML}<think>\n")
        thinking = f"{{# {SIGNS['hermes']} #}}{CHATML}<think>\n"
        engine.import_model(smollm2_path, "thinking", chat_template=thinking)
        engine.import_model(smollm2_path, "shut", chat_template=f"{CHATML}<think>\n\n</think>\n\n")
        yield engine


def test_every_format_is_tried() -> None:
    assert set(SIGNS) == {form.name for form in FORMATS}


def is_weather(call: ToolCall) -> bool:
    arguments = json.loads(call.arguments)
    is_right = isinstance(arguments["city"], str) and 1 <= arguments["days"] <= 9
    return call.name == "get_weather" and is_right and set(arguments) == {"city", "days"}


@pytest.mark.parametrize("name", [name for name in SIGNS if name != "harmony"])
def test_the_grammar_of_a_format_makes_calls_that_are_read(engine: Engine, name: str) -> None:
    dialect = chat_dialect(SIGNS[name])
    assert dialect.calls is not None
    grammar = CallGrammar(dialect.calls, [WEATHER], False, special=lambda text: None).demanded()
    reading = dialect.reading("", ChatOptions(tools=(WEATHER,)))
    for config in (GREEDY, DRAWN):
        form = ResponseFormat.lark(grammar)
        reply = reading.read(engine.chat("plain", MESSAGES, config, response_format=form).text)
        (call,) = reply.tool_calls
        assert is_weather(call)
        assert reply.content == ""


@pytest.mark.parametrize("name", ["hermes", "qwen-coder"])
def test_a_call_that_is_demanded_comes(engine: Engine, name: str) -> None:
    options = ChatOptions(tools=(CLOCK, WEATHER), tool_choice="get_weather", parallel_tool_calls=False)
    for config in (GREEDY, DRAWN):
        (call,) = engine.reply(name, MESSAGES, config, options=options).tool_calls
        assert is_weather(call)


def test_some_tool_of_several_is_called(engine: Engine) -> None:
    options = ChatOptions(tools=(CLOCK, WEATHER), tool_choice="required")
    calls = engine.reply("hermes", MESSAGES, GREEDY, options=options).tool_calls
    assert calls and {call.name for call in calls} <= {"clock", "get_weather"}


def test_tools_that_a_template_cannot_call_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidParameter, match="teaches no known calls"):
        engine.reply("plain", MESSAGES, options=ChatOptions(tools=(CLOCK,)))


def test_the_template_is_told_of_tools_and_variables(engine: Engine) -> None:
    assert "get_weather" in engine.render("hermes", MESSAGES, options=ChatOptions(tools=(WEATHER,)))
    silent = ChatOptions(tools=(WEATHER,), tool_choice="none")
    assert "get_weather" not in engine.render("hermes", MESSAGES, options=silent)


def test_a_schema_of_a_tool_that_cannot_be_enforced_is_refused(engine: Engine) -> None:
    odd = Tool("odd", "", {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})
    with pytest.raises(UnenforceableFormat, match="uniqueItems"):
        engine.reply("hermes", MESSAGES, options=ChatOptions(tools=(odd,), tool_choice="required"))


@pytest.mark.parametrize("more", [{"minProperties": 1}, {"enum": [{"utc": True}]}, {"const": {"utc": True}}])
def test_arguments_written_one_by_one_are_not_held_to_what_is_said_of_all(
    engine: Engine, more: dict[str, object]
) -> None:
    options = ChatOptions(tools=(Tool("odd", "", {**CLOCK.schema, **more}),), tool_choice="required")
    with pytest.raises(UnenforceableFormat, match=f"odd: '{next(iter(more))}' at #: .*one by one"):
        engine.reply("qwen-coder", MESSAGES, options=options)


def test_a_format_holds_where_no_thought_is_open(engine: Engine) -> None:
    form = ResponseFormat.choice(["yes", "no"])
    assert engine.reply("shut", MESSAGES, GREEDY, response_format=form).content in ("yes", "no")


def test_a_format_behind_a_thought_that_no_token_ends_is_refused(engine: Engine) -> None:
    with pytest.raises(UnenforceableFormat, match="thought"):
        engine.reply("open", MESSAGES, GREEDY, response_format=ResponseFormat.choice(["yes", "no"]))


def test_a_call_behind_a_thought_that_no_token_ends_is_refused_by_the_name_of_the_choice(
    engine: Engine,
) -> None:
    options = ChatOptions(tools=(CLOCK,), tool_choice="required")
    with pytest.raises(UnenforceableFormat, match=r"tools .*: tool_choice 'required' .* end is no token"):
        engine.reply("thinking", MESSAGES, GREEDY, options=options)


def test_what_is_thought_is_told_apart(engine: Engine) -> None:
    reply = engine.reply("open", MESSAGES, GenerationConfig(temperature=0, max_tokens=5))
    assert reply.reasoning and not reply.content


def test_a_format_with_the_tags_of_thoughts_is_content_as_it_is(engine: Engine) -> None:
    for text in ("a</think>b", "<think>a</think>b", "</think>"):
        for form in (ResponseFormat.choice([text]), ResponseFormat.json_schema({"enum": [text]})):
            reply = engine.reply("plain", MESSAGES, GREEDY, response_format=form)
            said = text if form.kind == "choice" else json.dumps(text)
            assert (reply.content, reply.reasoning) == (said, "")


@pytest.mark.parametrize("name", ["hermes", "qwen-coder"])
def test_an_argument_with_the_tags_of_thoughts_is_one(engine: Engine, name: str) -> None:
    text = {"type": "object", "properties": {"a": {"const": "</think>x"}}, "required": ["a"]}
    tool = Tool("f", "", {**text, "additionalProperties": False})
    options = ChatOptions(tools=(tool,), tool_choice="required", parallel_tool_calls=False)
    reply = engine.reply(name, MESSAGES, GREEDY, options=options)
    assert [call.arguments for call in reply.tool_calls] == ['{"a": "</think>x"}']
    assert (reply.content, reply.reasoning) == ("", "")


@pytest.mark.parametrize("choice", ["auto", "required", "f"])
def test_a_tool_with_a_text_that_cannot_be_written_is_refused(engine: Engine, choice: str) -> None:
    kind = {"enum": ["x", "a</tool_call>b"]}
    tool = Tool("f", "", {"type": "object", "properties": {"a/b": kind}, "required": ["a/b"]})
    options = ChatOptions(tools=(CLOCK, tool), tool_choice=choice)
    with pytest.raises(
        UnenforceableFormat, match=r"tools .*: f: 'a</tool_call>b' at #/properties/a~1b/enum/1"
    ):
        engine.reply("qwen-coder", MESSAGES, GREEDY, options=options)


def test_a_tool_with_a_pattern_of_texts_that_cannot_be_written_is_refused(engine: Engine) -> None:
    for pattern in ("^</parameter>$", "a</tool_call>", r"^\x3c/tool_call>|</parameter>$"):
        kind = {"type": "string", "pattern": pattern}
        tool = Tool("f", "", {"type": "object", "properties": {"a": kind}, "required": ["a"]})
        options = ChatOptions(tools=(tool,), tool_choice="required")
        with pytest.raises(UnenforceableFormat, match=r"tools .*: f: .* at #/properties/a/pattern: no text"):
            engine.reply("qwen-coder", MESSAGES, GREEDY, options=options)
    for pattern in ("^<b>$", "^(</tool_call>|<b>)$"):
        kind = {"type": "string", "pattern": pattern}
        tool = Tool("f", "", {"type": "object", "properties": {"a": kind}, "required": ["a"]})
        options = ChatOptions(tools=(tool,), tool_choice="required", parallel_tool_calls=False)
        (call,) = engine.reply("qwen-coder", MESSAGES, GREEDY, options=options).tool_calls
        assert json.loads(call.arguments) == {"a": "<b>"}


def test_a_tool_with_an_argument_whose_name_cannot_be_written_is_refused(engine: Engine) -> None:
    for name in ("a>b", "a\nb", " a", ""):
        tool = Tool("f", "", {"type": "object", "properties": {name: {"type": "string"}}})
        with pytest.raises(UnenforceableFormat, match=r"tools .*: f: the name .* at #/properties"):
            engine.reply("qwen-coder", MESSAGES, GREEDY, options=ChatOptions(tools=(tool,)))
