import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import InvalidParameter, TemplateError
from rase_models.chat import ChatTemplate
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import ArgumentPiece, Content, Part, Reasoning, ToolCall, merged
from rase_models.chat.tool_calls import Tool, call_format
from rase_models.chat.tool_calls.growth import JsonArguments
from rase_models.chat.tool_calls.table import FORMATS

WEATHER = Tool(
    "get_weather",
    "Tells the weather.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer", "description": "how many"},
        },
        "required": ["city"],
    },
)
CLOCK = Tool("clock", "Tells the time.", {"type": "object", "properties": {"utc": {"type": "boolean"}}})
OPTIONS = ChatOptions(tools=(WEATHER, CLOCK))
CITY = 'São "Paulo", {a}: [b] <c>'

CALLS = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>',
    "granite": '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]',
    "phi": '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]<|/tool_call|>',
    "apriel": '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]</tool_calls>',
    "nemotron": '<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]</TOOLCALL>',
    "cohere": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", '
        '"parameters": {"city": "Oslo", "days": 2}}]<|END_ACTION|>'
    ),
    "mistral-list": '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}]',
    "mistral": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", "days": 2}',
    "llama": '{"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}}',
    "deepseek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Oslo", "days": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "deepseek-3.1": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Oslo", "days": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Oslo", "days": 2}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "qwen-coder": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>"
    ),
    "seed": (
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n"
        "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>"
    ),
    "glm": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Oslo</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "deepseek-3.2": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "deepseek-4": (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    ),
    "gemma": '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:2}<tool_call|>',
    "function-gemma": (
        "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>"
    ),
    "llama-pythonic": '[get_weather(city="Oslo", days=2)]',
    "lfm2": '<|tool_call_start|>[get_weather(city="Oslo", days=2)]<|tool_call_end|>',
    "harmony": (
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Oslo", "days": 2}<|call|>'
    ),
}
SIGNS = {
    "deepseek": " ```json",
    "qwen-coder": "<parameter=",
    "glm": "",
    "llama": ' "parameters": <|start_header_id|>',
    "llama-pythonic": "[func_name1(",
    "harmony": "",
}


def template_of(name: str) -> str:
    return CALLS[name] + SIGNS.get(name, "")


def read(name: str, pieces: Iterable[str], options: ChatOptions = OPTIONS) -> list[Part]:
    reader = chat_dialect(template_of(name)).reading("", options).reader()
    parts = [part for piece in pieces for part in reader.push(piece)]
    return merged(parts + reader.finish())


def read_whole(name: str, text: str) -> list[Part]:
    reply = chat_dialect(template_of(name)).reading("", OPTIONS).read(text)
    return [*([Content(reply.content)] if reply.content else []), *reply.tool_calls]


def calls_of(parts: Iterable[Part]) -> list[tuple[str, object]]:
    return [(part.name, json.loads(part.arguments)) for part in parts if isinstance(part, ToolCall)]


def said_in(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Content))


def without_ids(parts: Iterable[Part]) -> list[object]:
    return [(p.index, p.name, p.arguments) if isinstance(p, ToolCall) else p for p in parts]


def test_every_format_has_an_example() -> None:
    assert set(CALLS) == {form.name for form in FORMATS}


@pytest.mark.parametrize("name", CALLS)
def test_a_template_that_teaches_a_format_is_known_by_it(name: str) -> None:
    form = call_format(template_of(name))
    assert form is not None and form.name == name


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_read(name: str) -> None:
    parts = read(name, [CALLS[name]])
    assert calls_of(parts) == [("get_weather", {"city": "Oslo", "days": 2})]
    assert said_in(parts) == ""


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name not in ("llama", "llama-pythonic", "harmony")]
)
def test_what_is_thought_and_said_before_a_call_is_read_too(name: str) -> None:
    tags = chat_dialect(template_of(name)).tags
    parts = read(name, [f"{tags.begin}hm{tags.end}\n\nI shall look.\n\n{CALLS[name]}"])
    assert parts[:2] == [Reasoning("hm"), Content("I shall look.")]
    assert len(parts) == 3


def test_harmony_has_channels() -> None:
    answer = (
        "<|channel|>analysis<|message|>hm<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        f"<|start|>assistant{CALLS['harmony']}"
    )
    parts = read("harmony", [answer])
    assert parts[:2] == [Reasoning("hm"), Content("I look.")]
    assert calls_of(parts) == [("get_weather", {"city": "Oslo", "days": 2})]
    final = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    assert read("harmony", [final]) == [Reasoning("hm"), Content("Yes.")]
    other = '<|start|>assistant to=functions.clock<|channel|>commentary json<|message|>{"utc": true}'
    assert calls_of(read("harmony", [other])) == [("clock", {"utc": True})]
    assert read("harmony", ['{"a": 1}']) == [Content('{"a": 1}')]


BEFORE = ["", "Well.", "a <\n", "  "]


@cache
def read_at_once(name: str, before: str) -> list[object]:
    return without_ids(read(name, [before + CALLS[name]]))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("before", BEFORE)
def test_an_answer_may_come_letter_by_letter(name: str, before: str) -> None:
    assert without_ids(read(name, before + CALLS[name])) == read_at_once(name, before)


@pytest.mark.parametrize("name", CALLS)
@given(cuts=st.lists(st.integers(1, 300), max_size=10), before=st.sampled_from(BEFORE))
def test_it_does_not_matter_how_an_answer_is_cut(name: str, cuts: list[int], before: str) -> None:
    text = before + CALLS[name]
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert without_ids(read(name, [text[a:b] for a, b in pairwise(places)])) == read_at_once(name, before)


@pytest.mark.parametrize("name", CALLS)
@given(text=st.text(max_size=40))
def test_an_answer_without_calls_is_what_it_was(name: str, text: str) -> None:
    if name != "harmony" and not text.lstrip().startswith(("{", "[")) and "<" not in text:
        assert said_in(read(name, [text])) == text


@pytest.mark.parametrize("name", CALLS)
@given(at=st.integers(0, 200), junk=st.text(max_size=5), ends=st.booleans())
def test_a_broken_call_never_fails_and_its_arguments_are_json(
    name: str, at: int, junk: str, ends: bool
) -> None:
    broken = CALLS[name][:at] + ("" if ends else junk + CALLS[name][at:])
    read(name, broken)
    assert all(isinstance(arguments, dict) for _, arguments in calls_of(read_whole(name, broken)))


def test_nothing_comes_of_arguments_behind_what_json_cannot_have() -> None:
    arguments = JsonArguments()
    assert [arguments.take(piece) for piece in ('{"a": x', "hello", "x")] == [
        ('{"a": ', ""),
        ("", ""),
        ("", ""),
    ]


def test_a_broken_call_is_content() -> None:
    broken = '<tool_call>\n{"name": "get_weather", "argu\n</tool_call>'
    assert read("hermes", [broken]) == [Content(broken)]
    assert read("hermes", [broken[:30]]) == [Content(broken[:30])]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"'])
def test_values_that_json_does_not_have_make_no_call(value: str) -> None:
    hermes = CALLS["hermes"].replace("2}", f"{value}}}")
    assert read_whole("hermes", hermes) == [Content(hermes)]
    for name in ("llama", "llama-pythonic", "mistral", "qwen-coder", "harmony"):
        parts = read_whole(name, CALLS[name].replace("2}", f"{value}}}").replace("2)", f"{value})"))
        assert all("NaN" not in p.arguments for p in parts if isinstance(p, ToolCall))


def test_json_that_calls_nothing_known_is_content() -> None:
    for text in ('{"name": "unknown", "parameters": {}}', '{"a": 1}', "{", '[1, {"b": 2}]'):
        assert read("llama", [text]) == [Content(text)]


def test_without_tools_nothing_is_a_call() -> None:
    for options in (ChatOptions(), ChatOptions(tools=(WEATHER,), tool_choice="none")):
        parts = read("hermes", [CALLS["hermes"]], options)
        assert parts == [Content(CALLS["hermes"])]


WHOLE = ("llama-pythonic", "lfm2", "gemma", "function-gemma")


@pytest.mark.parametrize("name", [name for name in CALLS if name not in WHOLE])
def test_a_call_comes_while_it_is_written(name: str) -> None:
    reader = chat_dialect(template_of(name)).reading("", OPTIONS).reader()
    parts = [part for piece in CALLS[name] for part in reader.push(piece)] + reader.finish()
    first, *pieces = [part for part in parts if not isinstance(part, Content)]
    assert isinstance(first, ToolCall) and (first.name, first.arguments) == ("get_weather", "")
    assert len(pieces) > 3 and all(isinstance(piece, ArgumentPiece) for piece in pieces)
    assert calls_of(merged(parts)) == [("get_weather", {"city": "Oslo", "days": 2})]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=1, max_size=30)


@pytest.mark.parametrize("name", ["hermes", "llama", "mistral", "harmony", "qwen-coder", "glm", "minimax"])
@given(city=TEXTS, days=st.integers(), cuts=st.lists(st.integers(1, 300), max_size=10))
def test_what_comes_of_a_call_is_what_it_says_as_a_whole(
    name: str, city: str, days: int, cuts: list[int]
) -> None:
    is_json = '"Oslo"' in CALLS[name]
    said = json.dumps(city, ensure_ascii=False) if is_json else city
    text = CALLS[name].replace("2", str(days), 1).replace('"Oslo"' if is_json else "Oslo", said)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    streamed = calls_of(read(name, [text[a:b] for a, b in pairwise(places)]))
    assert streamed == calls_of(read_whole(name, text))


def test_a_call_that_is_cut_off_comes_as_far_as_it_goes() -> None:
    (call,) = read("hermes", [CALLS["hermes"][:65]])
    assert isinstance(call, ToolCall)
    assert call.arguments and '{"city": "Oslo", "days": 2}'.startswith(call.arguments)
    assert read_whole("hermes", CALLS["hermes"][:65]) == [Content(CALLS["hermes"][:65])]


def test_two_calls_have_numbers_and_ids_of_their_own() -> None:
    text = "\n".join(
        [CALLS["hermes"], '<tool_call>{"name": "clock", "arguments": "{\\"utc\\": true}"}</tool_call>']
    )
    calls = [part for part in read("hermes", [text]) if isinstance(part, ToolCall)]
    assert [(call.index, call.name) for call in calls] == [(0, "get_weather"), (1, "clock")]
    assert len({call.id for call in calls}) == 2
    assert json.loads(calls[1].arguments) == {"utc": True}
    (mistral,) = (part for part in read("mistral", [CALLS["mistral"]]) if isinstance(part, ToolCall))
    assert len(mistral.id) == 9 and mistral.id.isalnum()


def test_values_written_as_text_have_the_types_of_the_schema() -> None:
    text = CALLS["qwen-coder"].replace("Oslo", "12").replace("\n2\n", "\n[1]\n")
    assert calls_of(read("qwen-coder", [text])) == [("get_weather", {"city": "12", "days": [1]})]
    lines = CALLS["qwen-coder"].replace("Oslo", 'a\n<b> "c"\n\nd')
    assert calls_of(read("qwen-coder", [lines])) == [("get_weather", {"city": 'a\n<b> "c"\n\nd', "days": 2})]


def test_a_thought_in_a_continued_message_goes_on() -> None:
    dialect = chat_dialect("{{ messages }}")
    for continued, thought in (("<think>so", "hm"), ("<think>so</think>a", ""), ("a", "")):
        reply = dialect.reading(f"x{continued}", ChatOptions(), continued).read("hm")
        assert (reply.reasoning, reply.content) == (thought, "" if thought else "hm")


def test_options_that_make_no_sense_are_refused() -> None:
    for choice, tools in (("required", ()), ("nothing", (WEATHER,)), ("auto", (WEATHER, WEATHER))):
        with pytest.raises(InvalidParameter):
            ChatOptions(tools=tools, tool_choice=choice)
    with pytest.raises(InvalidParameter, match="letters"):
        Tool("a b")
    with pytest.raises(InvalidParameter, match="teaches no known calls"):
        chat_dialect("{{ messages }}").reading("", OPTIONS)


def _real_templates() -> list[Path]:
    folder = os.environ.get("RASE_TEMPLATES")
    return sorted(Path(folder).glob("*.jinja")) if folder else []


ENDS = ("<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<turn|>", "<|tool_response>", "<SPECIAL_12>")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("hermes", "</tool_call>"),
        ("hermes", '\\"</tool_call><tool_call>'),
        ("phi", "<|/tool_call|>"),
        ("apriel", "</tool_calls>"),
        ("nemotron", "</TOOLCALL>"),
        ("mistral", "[TOOL_CALLS]"),
    ],
)
def test_an_argument_may_have_the_marker_that_ends_calls(name: str, end: str) -> None:
    text = CALLS[name].replace("Oslo", f"Os{end}lo")
    expected = [("get_weather", {"city": json.loads(f'"Os{end}lo"'), "days": 2})]
    assert calls_of(read_whole(name, text)) == expected
    assert calls_of(read(name, text)) == expected
    assert calls_of(read(name, [text])) == expected


@pytest.mark.skipif(not _real_templates(), reason="RASE_TEMPLATES does not name a folder of templates")
@pytest.mark.parametrize("path", _real_templates(), ids=lambda path: path.stem)
def test_what_a_real_template_writes_of_a_call_is_read_back(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if call_format(source) is None:
        pytest.skip("no known format")
    template = ChatTemplate(source, "it", {"bos_token": "", "eos_token": ""})
    user = {"role": "user", "content": "Weather?"}
    call = {"name": "get_weather", "arguments": {"city": CITY, "days": 2}}
    calls = [{"id": "abcdefghi", "type": "function", "function": call}]
    turns: list[Mapping[str, object]] = [user, {"role": "assistant", "content": "", "tool_calls": calls}]
    values = OPTIONS.template_tools()
    try:
        prompt = template.render([user], add_generation_prompt=True, continue_final_message=False, **values)
        whole = template.render(turns, add_generation_prompt=False, continue_final_message=False, **values)
    except TemplateError as error:
        pytest.skip(error.message)
    if '"Paulo' not in whole.replace("\\", ""):
        pytest.skip("writes no calls")
    common = next(i for i, (a, b) in enumerate(zip(f"{prompt}\0", whole, strict=False)) if a != b)
    tag = whole.rfind("<", 0, common)
    start = tag if tag > whole.rfind(">", 0, common) else common
    answer = whole[start:].rstrip()
    for end in ENDS:
        answer = answer.removesuffix(end)
    reader = chat_dialect(source).reading(whole[:start], OPTIONS).reader()
    parts = merged(reader.push(answer) + reader.finish())
    assert calls_of(parts) == [("get_weather", {"city": CITY, "days": 2})]


@pytest.mark.parametrize("kind", ["string", "array", "null", ["object", "null"], 5])
def test_arguments_that_are_no_object_are_refused(kind: object) -> None:
    with pytest.raises(InvalidParameter, match="parameters of f whose type is object"):
        Tool("f", parameters={"type": kind})


def test_objects_in_json_are_read_within_gemmas_arguments() -> None:
    dialect = chat_dialect("<|tool_call>call:")
    text = '<|tool_call>call:f{place:{ "a b":"x, {y}",\n  "n":[1,"]"]},on:true,t:<|"|> z <|"|>}<tool_call|>'
    (call,) = dialect.reading("", ChatOptions(tools=(Tool("f"),))).read(text).tool_calls
    assert json.loads(call.arguments) == {"place": {"a b": "x, {y}", "n": [1, "]"]}, "on": True, "t": " z "}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<｜tool▁call▁begin｜> ```json", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>funct"),
        ("<tool_call><arg_key>", "<tool_call>get_wea"),
        ("<tool_call><arg_key>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n"),
        ("<tool_call><function=<parameter=", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n"),
        ("<minimax:tool_call><invoke name=", '<minimax:tool_call>\n<invoke name="f">\n'),
    ],
)
def test_a_call_that_is_cut_off_is_text_in_a_whole_answer(template: str, text: str) -> None:
    reply = chat_dialect(template).reading("", ChatOptions(tools=(Tool("f"),))).read(text)
    assert not reply.tool_calls and reply.content
