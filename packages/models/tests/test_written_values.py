"""What the grammar of a call lets a model write as an argument is read as what it is, whatever it spells."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import UnenforceableFormat
from rase_models.chat.dialect import ChatDialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.parts import ToolCall, merged
from rase_models.chat.reasoning import THINK, Held
from rase_models.chat.tool_calls import CallFormat, CallGrammar, Tool
from rase_models.chat.tool_calls.table import FORMATS
from rase_models.chat.tool_calls.writable import refuse_unwritable
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.gguf import open_gguf
from rase_models.testing import write_tiny_model
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf

NAMES = [form.name for form in FORMATS]
OBJECT = '{"a": %j, "b": %l}'
CODER = "<function=f>\n<parameter=a>{0}%t{0}</parameter>\n<parameter=b>{0}%l{0}</parameter>\n</function>"
DSML = (
    '<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" string="true">%t</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="b" string="false">%l</｜DSML｜parameter>\n</｜DSML｜invoke>'
)


def objects(begin: str, end: str, arguments: str = "arguments") -> str:
    return f'{begin}{{"name": "f", "{arguments}": {OBJECT}}}{end}'


CALLS = {
    "hermes": objects("<tool_call>\n", "\n</tool_call>"),
    "granite": objects("<|tool_call|>[", "]"),
    "phi": objects("<|tool_call|>[", "]<|/tool_call|>"),
    "apriel": objects("<tool_calls>[", "]</tool_calls>"),
    "nemotron": objects("<TOOLCALL>[", "]</TOOLCALL>"),
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": '
    f"{OBJECT}}}]<|END_ACTION|>",
    "mistral-list": objects("[TOOL_CALLS][", "]"),
    "mistral": f"[TOOL_CALLS]f[ARGS]{OBJECT}",
    "llama": objects("", "", "parameters"),
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
    f"{OBJECT}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek-3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
    f"{OBJECT}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    f"{OBJECT}<|tool_call_end|><|tool_calls_section_end|>",
    "qwen-coder": f"<tool_call>\n{CODER.format(chr(10))}\n</tool_call>",
    "seed": f"<seed:tool_call>\n{CODER.format('')}\n</seed:tool_call>",
    "glm": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>%t</arg_value>\n"
    "<arg_key>b</arg_key>\n<arg_value>%l</arg_value>\n</tool_call>",
    "minimax": f"<minimax:tool_call>\n{DSML}\n</minimax:tool_call>".replace("｜DSML｜", "")
    .replace(' string="true"', "")
    .replace(' string="false"', ""),
    "deepseek-3.2": f"<｜DSML｜function_calls>\n{DSML}\n</｜DSML｜function_calls>",
    "deepseek-4": f"<｜DSML｜tool_calls>\n{DSML}\n</｜DSML｜tool_calls>",
    "gemma": '<|tool_call>call:f{a:<|"|>%t<|"|>,b:%l}<tool_call|>',
    "function-gemma": "<start_function_call>call:f{a:<escape>%t<escape>,b:%l}<end_function_call>",
    "llama-pythonic": "[f(a=%j, b=%l)]",
    "lfm2": "<|tool_call_start|>[f(a=%j, b=%l)]<|tool_call_end|>",
    "harmony": f"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{OBJECT}",
}
VALUES = [
    "\n",
    "",
    " a ",
    "\na\n",
    "\n\n",
    "\n</parameter>\n",
    "</parameter>\n<parameter=b>\n",
    "<parameter=b>",
    "</function>",
    "<arg_key>b</arg_key>",
    "</think>",
    "<think>a</think>",
    '"',
    '"</tool_call>"',
    "\\",
    "\\\\",
    'a\\"</tool_call>',
    "}",
    "]",
    "'",
    "null",
    "1",
    "[1]",
    "```",
    "<|im_end|>",
]


def of(name: str) -> CallFormat:
    return next(form for form in FORMATS if form.name == name)


def marks(name: str) -> list[str]:
    return sorted({*of(name).markers, *of(name).ends})


def values(name: str) -> list[str]:
    return [*marks(name), *(f"x{mark}y" for mark in marks(name)), *VALUES]


def written(name: str, text: str, listed: str) -> str:
    places = {"%t": text, "%j": json.dumps(text, ensure_ascii=False)}
    call = CALLS[name].replace("%l", json.dumps([listed], ensure_ascii=False))
    for sign, value in places.items():
        before, found, behind = call.partition(sign)
        call = before + value + behind if found else call
    return call


def tool_of(text: dict[str, object], listed: dict[str, object]) -> Tool:
    properties = {
        "a": {"type": "string", **text},
        "b": {"type": "array", "items": {"type": "string", **listed}},
    }
    return Tool(
        "f",
        "",
        {"type": "object", "properties": properties, "required": ["a", "b"], "additionalProperties": False},
    )


FREE = tool_of({}, {})


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer_from_gguf(open_gguf(write_tiny_model(tmp_path_factory.mktemp("bytes") / "tiny.gguf")))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> FormatCompiler:
    return FormatCompiler(tokenizer)


def admits(compiler: FormatCompiler, tokenizer: Tokenizer, grammar: str, text: str) -> bool:
    rules = compiler.compile(ResponseFormat.lark(grammar))()
    for token in tokenizer.encode(text, add_special_tokens=False, parse_special=False):
        if rules.is_complete or not rules.allowed()[token]:
            return False
        rules.accept(token)
    return rules.may_end


def demanded(name: str, tool: Tool) -> str:
    return CallGrammar(of(name), [tool], False, lambda _: None).demanded()


def assert_read(name: str, tool: Tool, answer: str, value: object) -> None:
    """Check that a call is read whole, at once, in letters and in pieces, held to calls or not."""
    dialect = ChatDialect(THINK, True, True, of(name))
    for choice, held in (("auto", None), ("required", Held(may_think=True))):
        reading = dialect.reading("", ChatOptions(tools=(tool,), tool_choice=choice), held=held)
        reply = reading.read(answer)
        assert [json.loads(call.arguments) for call in reply.tool_calls] == [value]
        assert (reply.content, reply.reasoning) == ("", "")
        for pieces in ([answer], list(answer), [answer[at : at + 5] for at in range(0, len(answer), 5)]):
            reader = reading.reader()
            parts = merged([part for piece in pieces for part in reader.push(piece)] + reader.finish())
            (call,) = parts
            assert isinstance(call, ToolCall) and json.loads(call.arguments) == value


def test_every_format_is_written() -> None:
    assert set(CALLS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_that_a_tool_names_is_written_and_read_or_refused(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    for value in values(name):
        tool = tool_of({"enum": [value]}, {"const": value})
        answer = written(name, value, value)
        try:
            refuse_unwritable(of(name), [tool])
        except UnenforceableFormat as error:
            assert any(end in value for end in of(name).ends)
            assert "f: " in error.reason and "#/properties/a/enum/0" in error.reason
            answer = written(name, "", value)
            assert_read(name, tool, answer, {"a": "", "b": [value]})
        else:
            assert admits(compiler, tokenizer, demanded(name, tool), answer)
            assert_read(name, tool, answer, {"a": value, "b": [value]})


@pytest.mark.parametrize("name", NAMES)
def test_a_free_text_that_may_be_written_is_read(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    grammar = demanded(name, FREE)
    for value in values(name):
        answer = written(name, value, value)
        is_admitted = admits(compiler, tokenizer, grammar, answer)
        assert is_admitted is not any(end in value for end in of(name).ends)
        if is_admitted:
            assert_read(name, FREE, answer, {"a": value, "b": [value]})


ODD = ["<", ">", '"', "\\", "\n", "x", " ", "</", "parameter>"]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_has_no_end_in_it_is_read(name: str, data: st.DataObject) -> None:
    texts = st.lists(st.sampled_from([*marks(name), *ODD]), max_size=6).map("".join)
    text, listed = data.draw(texts), data.draw(texts)
    if not any(end in text for end in of(name).ends):
        assert_read(name, FREE, written(name, text, listed), {"a": text, "b": [listed]})


@pytest.mark.parametrize("name", ["lfm2", "llama-pythonic"])
def test_names_that_python_does_not_have_are_read(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    keys = ("from", "a-b", "None", "é", "1", "a.b", "n0")
    properties = {key: {"type": "string"} for key in keys}
    tool = Tool("other-fn.v2:x", "", {"type": "object", "properties": properties, "required": list(keys)})
    refuse_unwritable(of(name), [tool])
    arguments = ", ".join(f'{key}="from=(a=1), {key}("' for key in keys)
    call = CALLS[name].replace("f(a=%j, b=%l)", f"other-fn.v2:x({arguments})")
    assert admits(compiler, tokenizer, demanded(name, tool), call)
    assert_read(name, tool, call, {key: f"from=(a=1), {key}(" for key in keys})


@pytest.mark.parametrize(
    "text", ["[(n5)(a=1)]", "[(n0)()]", "[f(n1)]", "[f(**{1: 2})]", "[f.g]", "[f(a=g(1))]"]
)
def test_what_is_no_call_of_names_never_fails(text: str) -> None:
    answer = f"<|tool_call_start|>{text}<|tool_call_end|>"
    dialect = ChatDialect(THINK, True, True, of("lfm2"))
    reply = dialect.reading("", ChatOptions(tools=(FREE,))).read(answer)
    assert reply.content == answer or reply.tool_calls


@pytest.mark.parametrize("name", ["lfm2", "gemma", "qwen-coder", "glm", "minimax"])
def test_names_that_cannot_be_written_are_refused(name: str) -> None:
    odd = {"lfm2": "a b", "gemma": "a:b", "qwen-coder": "a>b", "glm": "a</arg_key>", "minimax": 'a"b'}[name]
    for key in (odd, f" {odd}", ""):
        tool = Tool("f", "", {"type": "object", "properties": {key: {}}})
        with pytest.raises(UnenforceableFormat, match=r"f: the name .* at #/properties cannot be written"):
            refuse_unwritable(of(name), [tool])
