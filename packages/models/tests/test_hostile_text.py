"""What clients and models have written is looked through in a time that grows as it is long."""

import json
import time
from contextlib import suppress

import pytest
from rase_core.errors import UnenforceableFormat
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import Content, ToolCall
from rase_models.chat.reply import Reply
from rase_models.chat.tool_calls import Tool
from rase_models.chat.tool_calls.whole_pattern import whole_pattern
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.reasons import reason_in

EXPECTED, BOTH = "Expected a at line 1, '", " at line 1, '' ^ '"
MOST_SECONDS = 2


def many(text: str) -> str:
    return text * (60_000 // len(text))


@pytest.mark.parametrize("start", ["", "no GBNF: ", "no GBNF: Expected a", "regex parse error:", "Rule '"])
@pytest.mark.parametrize(
    "text", [EXPECTED, BOTH, "invalid regex ", "regex parse error:", "\n", "\n 1", "lexer", "Rule '"]
)
def test_the_reason_in_a_text_of_the_library_is_found_at_once_whatever_it_quotes(
    start: str, text: str
) -> None:
    started = time.thread_time()
    reason_in(f"{start}{many(text)}x")
    assert time.thread_time() - started < MOST_SECONDS


@pytest.mark.parametrize(
    ("form", "word"),
    [
        (
            ResponseFormat.json_schema({"type": "string", "format": many(EXPECTED)}),
            "'format' at #: no format",
        ),
        (
            ResponseFormat.json_schema({"type": "string", "pattern": "(" + many(EXPECTED)}),
            "a group is not closed",
        ),
        (ResponseFormat.regex("(" + many(EXPECTED)), "no regex: unclosed group"),
        (ResponseFormat.regex(many("a b") + r"\b"), "anchors and word boundaries"),
        (ResponseFormat.grammar(f"start: /({many(EXPECTED)}/"), "no regex: unclosed group"),
        (ResponseFormat.grammar(f'start: %json {{"format": "{many(EXPECTED)}"}}'), "no format"),
        (ResponseFormat.grammar(f'root ::= "a" {many("b ")}'), "no GBNF: the rule 'b' is not there"),
        (ResponseFormat.grammar("root ::= '" + many(EXPECTED)), "no GBNF: line 1: expected name before"),
    ],
)
def test_long_formats_that_are_wrong_are_refused_with_the_reason_at_once(
    compiler: FormatCompiler, form: ResponseFormat, word: str
) -> None:
    started = time.thread_time()
    with pytest.raises(UnenforceableFormat) as caught:
        compiler.compile(form)
    assert word in caught.value.reason and len(caught.value.reason) < 700
    assert time.thread_time() - started < MOST_SECONDS


GLM, CODER = "<tool_call>a<arg_key></arg_key>\n<arg_value>", "<tool_call>\n<function=<parameter="
DEEPSEEK = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a"
KIMI = "<|tool_call_begin|>a"
KIMI_END = " b<|tool_call_argument_begin|>{}<|tool_call_end|>"
CALL = ChatOptions(tools=(Tool("a", "", {}),))


@pytest.mark.parametrize(
    ("template", "start", "text", "end"),
    [
        (GLM, "<tool_call>a", "<arg_key></arg_key><arg_value>", "</tool_call>"),
        (GLM, "<tool_call>a", "<arg_key>", "</tool_call>"),
        (CODER, "<tool_call><function=a>", "<parameter=a>", "</tool_call>"),
        (CODER, "<tool_call><function=a>", "<parameter=", "</tool_call>"),
        (CODER, "<tool_call><function=a>", " ", "x</tool_call>"),
        (f"{DEEPSEEK} ```json", DEEPSEEK, " ", "b<｜tool▁call▁end｜>"),
        (f"{DEEPSEEK} ```json", DEEPSEEK, "\n```", "b<｜tool▁call▁end｜>"),
        (f"{KIMI}<|tool_call_argument_begin|>", KIMI, " ", KIMI_END),
        (f"{KIMI}<|tool_call_argument_begin|>", KIMI, ":1", KIMI_END),
        ('<minimax:tool_call><invoke name="', '<invoke name="', " ", "</invoke>"),
        ('<minimax:tool_call><invoke name="', '<invoke name="a">', '<parameter name="b">', "</invoke>"),
        ("<|tool_call_start|>", "<|tool_call_start|>[a(", "b", "<|tool_call_end|>"),
        ("<|tool_call_start|>", "<|tool_call_start|>[a(", '\\\\"', "<|tool_call_end|>"),
        ("<|tool_call_start|>", "<|tool_call_start|>[a(", "b ", "<|tool_call_end|>"),
        ('<tool_call>"name", "arguments"</tool_call>', '<tool_call>{"name": "', "</tool_call>", "x"),
    ],
)
def test_what_looks_like_a_call_and_is_none_is_told_at_once(
    template: str, start: str, text: str, end: str
) -> None:
    reading = chat_dialect(template).reading("", CALL)
    answer = f"{start}{many(text)}{end}"
    started = time.thread_time()
    assert reading.read(answer) == Reply(answer)
    reader = reading.reader()
    parts = [part for at in range(0, len(answer), 16) for part in reader.push(answer[at : at + 16])]
    parts += reader.finish()
    assert time.thread_time() - started < MOST_SECONDS
    assert "".join(part.text for part in parts if isinstance(part, Content)) in (answer, "")
    assert all(part.name == "a" for part in parts if isinstance(part, ToolCall))


def test_a_stream_tells_of_an_argument_with_a_long_name_when_its_call_ends() -> None:
    name, calls = "b" * 5000, "<arg_key>{}</arg_key><arg_value>1</arg_value><arg_key>c</arg_key><arg_value>2"
    reader = chat_dialect(GLM).reading("", CALL).reader()
    answer = f"<tool_call>a\n{calls.format(name)}</arg_value></tool_call>"
    parts = [part for at in range(0, len(answer), 16) for part in reader.push(answer[at : at + 16])]
    reply = Reply.of([*parts, *reader.finish()])
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [{name: 1, "c": 2}]


@pytest.mark.parametrize("end", ["", "\\", "]"])
def test_a_pattern_of_classes_without_an_end_is_taken_apart_at_once(end: str) -> None:
    started = time.thread_time()
    assert whole_pattern(many("[") + end)
    assert time.thread_time() - started < MOST_SECONDS


@pytest.mark.parametrize(
    "schema",
    [
        '{"const": -9223372036854775808}',
        '{"const":-9223372036854775807}',
        '{"type": "integer", "minimum": -1e300, "maximum": -1e300}',
    ],
)
def test_numbers_at_which_the_library_ends_the_process_are_refused(
    compiler: FormatCompiler, schema: str
) -> None:
    with pytest.raises(UnenforceableFormat, match="a number below -922"):
        compiler.compile(ResponseFormat.grammar(f"start: %json {schema}"))
    with suppress(UnenforceableFormat):
        compiler.compile(ResponseFormat.json_schema(json.loads(schema)))
