"""The grammars of calls that must come and of calls that may, byte by byte, for every family."""

import json
import re
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from rase_core.constraint import Allowed
from rase_core.errors import UnenforceableFormat
from rase_models.chat.dialect import chat_dialect
from rase_models.chat.options import ChatOptions
from rase_models.chat.tool_calls import CallFormat, CallGrammar, Tool
from rase_models.chat.tool_calls.table import FORMATS
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.after_marker import AfterMarker
from rase_models.gguf import open_gguf
from rase_models.testing import write_tiny_model
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf

WEATHER = Tool(
    "weather",
    "",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
CLOCK = Tool("clock", "", {"type": "object", "properties": {}, "additionalProperties": False})
NAMES = [form.name for form in FORMATS]
ARGUMENTS = '{"city": "Oslo", "days": 2}'


def objects(begin: str, end: str, arguments: str = "arguments") -> str:
    return f'{begin}{{"name": "weather", "{arguments}": {ARGUMENTS}}}{end}'


DSML = (
    '<｜DSML｜invoke name="weather">\n<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>'
)
CODER = (
    "<function=weather>\n<parameter=city>{0}Oslo{0}</parameter>\n"
    "<parameter=days>{0}2{0}</parameter>\n</function>"
)
CALLS = {
    "hermes": objects("<tool_call>\n", "\n</tool_call>"),
    "granite": objects("<|tool_call|>[", "]"),
    "phi": objects("<|tool_call|>[", "]<|/tool_call|>"),
    "apriel": objects("<tool_calls>[", "]</tool_calls>"),
    "nemotron": objects("<TOOLCALL>[", "]</TOOLCALL>"),
    "cohere": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", "parameters": '
    f"{ARGUMENTS}}}]<|END_ACTION|>",
    "mistral-list": objects("[TOOL_CALLS][", "]"),
    "mistral": f"[TOOL_CALLS]weather[ARGS]{ARGUMENTS}",
    "llama": objects("", "", "parameters"),
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
    f"{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek-3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
    f"{ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "qwen-coder": f"<tool_call>\n{CODER.format(chr(10))}\n</tool_call>",
    "seed": f"<seed:tool_call>\n{CODER.format('')}\n</seed:tool_call>",
    "glm": "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
    "minimax": f"<minimax:tool_call>\n{DSML}\n</minimax:tool_call>".replace("｜DSML｜", "")
    .replace(' string="true"', "")
    .replace(' string="false"', ""),
    "deepseek-3.2": f"<｜DSML｜function_calls>\n{DSML}\n</｜DSML｜function_calls>",
    "deepseek-4": f"<｜DSML｜tool_calls>\n{DSML}\n</｜DSML｜tool_calls>",
    "gemma": '<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:2}<tool_call|>',
    "function-gemma": "<start_function_call>call:weather{city:<escape>Oslo<escape>,days:2}"
    "<end_function_call>",
    "llama-pythonic": '[weather(city="Oslo", days=2)]',
    "lfm2": '<|tool_call_start|>[weather(city="Oslo", days=2)]<|tool_call_end|>',
    "harmony": "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + ARGUMENTS,
}
FINAL = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer_from_gguf(open_gguf(write_tiny_model(tmp_path_factory.mktemp("bytes") / "tiny.gguf")))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> FormatCompiler:
    return FormatCompiler(tokenizer)


def of(name: str) -> CallFormat:
    return next(form for form in FORMATS if form.name == name)


def admits(compiler: FormatCompiler, tokenizer: Tokenizer, grammar: str, text: str) -> bool:
    rules = compiler.compile(ResponseFormat.lark(grammar))()
    for token in tokenizer.encode(text, add_special_tokens=False, parse_special=False):
        if rules.is_complete or not rules.allowed()[token]:
            return False
        rules.accept(token)
    return rules.may_end


def grammar_of(name: str, tools: Sequence[Tool] = (CLOCK, WEATHER), *, parallel: bool = True) -> CallGrammar:
    return CallGrammar(of(name), tools, parallel, lambda _: None)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_must_come_where_it_is_demanded(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    grammar = grammar_of(name).demanded()
    assert admits(compiler, tokenizer, grammar, CALLS[name])
    for text in ("", "Hi", CALLS[name].replace("weather", "wether"), CALLS[name].replace("2", '"2"')):
        assert not admits(compiler, tokenizer, grammar, text)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_may_come_is_none_or_a_right_one(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    grammar, said = grammar_of(name).offered(), f"{FINAL if name == 'harmony' else ''}Well, 1 < 2 is so."
    assert admits(compiler, tokenizer, grammar, said)
    assert admits(compiler, tokenizer, grammar, CALLS[name])
    for text in (CALLS[name].replace("weather", "wether"), CALLS[name].replace("2", '"2"'), CALLS[name][:-1]):
        assert not admits(compiler, tokenizer, grammar, text)


@pytest.mark.parametrize("name", [name for name in NAMES if of(name).begin])
def test_something_may_be_said_before_a_call(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    grammar = grammar_of(name).offered()
    assert admits(compiler, tokenizer, grammar, f"I look.\n{CALLS[name]}")
    assert not admits(compiler, tokenizer, grammar, f"I look.\n{CALLS[name]}So.")


@pytest.mark.parametrize("name", ["hermes", "mistral", "qwen-coder", "glm"])
def test_there_is_one_call_where_several_are_not_allowed(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str
) -> None:
    two = f"{CALLS[name]}\n{CALLS[name]}"
    for parallel in (True, False):
        for grammar in (
            grammar_of(name, parallel=parallel).demanded(),
            grammar_of(name, parallel=parallel).offered(),
        ):
            assert admits(compiler, tokenizer, grammar, CALLS[name])
            assert admits(compiler, tokenizer, grammar, two) is parallel


@pytest.mark.parametrize("name", NAMES)
def test_a_call_as_the_grammar_has_it_is_read(name: str) -> None:
    reading = chat_dialect(CALLS[name] + " ```json" * (name == "deepseek") + LLAMA.get(name, "")).reading(
        "", ChatOptions(tools=(CLOCK, WEATHER))
    )
    reply = reading.read(CALLS[name])
    (call,) = reply.tool_calls
    assert (reply.content, call.name, json.loads(call.arguments)) == ("", "weather", json.loads(ARGUMENTS))


LLAMA = {"llama": "<|start_header_id|>", "llama-pythonic": "[func_name1("}


def test_what_cannot_be_enforced_is_let_pass_by_a_lenient_grammar(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    unique = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    grammar = CallGrammar(of("hermes"), [Tool("odd", "", unique)], True, lambda _: None, is_lenient=True)
    call = '<tool_call>\n{"name": "odd", "arguments": {"a": [1]}}\n</tool_call>'
    assert admits(compiler, tokenizer, grammar.offered(), call)


def test_arguments_that_may_lack_come_in_their_order_and_with_separators_between_them(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    tool = Tool("t", "", {"type": "object", "properties": {name: {"type": "integer"} for name in "abcd"}})
    grammar = CallGrammar(of("llama-pythonic"), [tool], False, lambda _: None).demanded()
    for names in (names for n in range(5) for names in permutations("abcd", n)):
        call = f"[t({', '.join(f'{name}=1' for name in names)})]"
        assert admits(compiler, tokenizer, grammar, call) is (list(names) == sorted(names))
    assert not admits(compiler, tokenizer, grammar, "[t(, a=1)]")
    assert not admits(compiler, tokenizer, grammar, "[t(a=1, )]")


def test_schemas_of_tools_that_are_too_long_together_are_refused() -> None:
    said = {"type": "string", "description": "d" * 10_000}
    properties = {f"property_{i}": said for i in range(100)}
    tools = [Tool(f"f{i}", "", {"type": "object", "properties": properties}) for i in range(20)]
    assert CallGrammar(FORMATS[0], tools[:10], True, lambda text: None).demanded()
    with pytest.raises(UnenforceableFormat, match="more than 65536 characters, without annotations"):
        CallGrammar(FORMATS[0], tools, True, lambda text: None).demanded()


@pytest.mark.parametrize("required", [[], ["p0"]])
@pytest.mark.parametrize("name", ["llama-pythonic", "gemma"])
def test_a_call_may_have_very_many_arguments_that_may_lack(
    compiler: FormatCompiler, tokenizer: Tokenizer, name: str, required: list[str]
) -> None:
    properties = {f"p{i}": {"type": "string"} for i in range(800)}
    tool = Tool("t", "", {"type": "object", "properties": properties, "required": required})
    grammar = CallGrammar(of(name), [tool], False, lambda _: None).demanded()
    assert len(grammar) < 800 * 300
    calls = {
        "llama-pythonic": '[t(p0="a", p3="a", p799="b")]',
        "gemma": '<|tool_call>call:t{p0:<|"|>a<|"|>,p3:<|"|>a<|"|>,p799:<|"|>b<|"|>}<tool_call|>',
    }
    assert admits(compiler, tokenizer, grammar, calls[name])
    assert not admits(compiler, tokenizer, grammar, calls[name].replace("p3", "p799"))


def test_a_call_of_more_arguments_than_can_be_followed_is_refused() -> None:
    tool = Tool("t", "", {"type": "object", "properties": {f"p{i}": {} for i in range(2001)}})
    with pytest.raises(UnenforceableFormat, match="more than 2000 arguments"):
        CallGrammar(of("gemma"), [tool], False, lambda _: None).demanded()


@pytest.mark.parametrize("name", ["gemma", "qwen-coder", "glm", "minimax"])
@pytest.mark.parametrize("choices", [{"const": 3}, {"enum": [1, None]}])
def test_a_text_that_none_of_its_choices_is_cannot_be_written(
    compiler: FormatCompiler, name: str, choices: dict[str, object]
) -> None:
    kind = {"type": "string", **choices}
    tool = Tool("t", "", {"type": "object", "properties": {"a": kind}, "required": ["a"]})
    grammar = CallGrammar(of(name), [tool], False, lambda _: None).demanded()
    with pytest.raises(UnenforceableFormat, match="nothing satisfies it"):
        compiler.compile(ResponseFormat.lark(grammar))


@pytest.mark.parametrize(
    "pattern",
    [
        "^a|b$",
        "a|^b|c",
        "^a$|^b$",
        "^(?:a|b)$",
        r"a\\$",
        r"a\\\$",
        r"^[|^$(]+$",
        "a/b",
        "",
        "^$",
        r"\||b$",
        "(a|b)c",
    ],
)
def test_a_text_has_a_match_of_its_pattern(
    compiler: FormatCompiler, tokenizer: Tokenizer, pattern: str
) -> None:
    kind = {"type": "string", "pattern": pattern}
    tool = Tool("t", "", {"type": "object", "properties": {"a": kind}, "required": ["a"]})
    grammar = CallGrammar(of("gemma"), [tool], False, lambda _: None).demanded()
    for text in (
        "a",
        "b",
        "ab",
        "ba",
        "xab",
        "abx",
        "a\\",
        "a\\x",
        "a$",
        "a\\$",
        "|^$",
        "xa/bx",
        "",
        "xac",
        "cx",
    ):
        call = f'<|tool_call>call:t{{a:<|"|>{text}<|"|>}}<tool_call|>'
        assert admits(compiler, tokenizer, grammar, call) is bool(re.search(pattern, text)), text


@pytest.mark.parametrize("pattern", ["(^a|b)c", "a$b", "a(b$)", "x^"])
def test_anchors_within_a_pattern_are_refused_by_name(pattern: str) -> None:
    kind = {"type": "string", "pattern": pattern}
    tool = Tool("t", "", {"type": "object", "properties": {"a": kind}})
    with pytest.raises(UnenforceableFormat, match=r"'pattern' .* at the ends alone"):
        CallGrammar(of("gemma"), [tool], False, lambda _: None).demanded()
    assert CallGrammar(of("gemma"), [tool], False, lambda _: None, is_lenient=True).demanded()


class Two:
    """Rules that want a token and then end."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def allowed(self) -> Allowed:
        return np.array([token == 5 for token in range(8)])

    def forced(self) -> Sequence[int]:
        return ()

    def accept(self, token: int) -> None:
        self.seen.append(token)

    @property
    def may_end(self) -> bool:
        return len(self.seen) == 2

    is_complete = may_end


def test_rules_begin_with_the_token_of_a_marker() -> None:
    rules = AfterMarker({3: Two})
    for token in (1, 5, 2):
        rules.accept(token)
        assert rules.allowed() is None and rules.may_end and not rules.is_complete
    rules.accept(3)
    allowed = rules.allowed()
    assert allowed is not None and allowed.nonzero()[0].tolist() == [5]
    assert not rules.may_end
    rules.accept(5)
    assert rules.is_complete
