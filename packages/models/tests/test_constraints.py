import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import ConstraintFailure, UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.response_format import MOST_TEXT
from rase_models.constraints.schema import Place, SchemaDocument, fault_of, prepared
from rase_models.constraints.schema.keywords import Schema
from rase_models.gguf import open_gguf
from rase_models.testing import write_tiny_model
from rase_models.tokenizers import Tokenizer, tokenizer_from_gguf

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}

JSON_CASES: tuple[tuple[object, list[str], list[str]], ...] = (
    (True, ["1", '"a"', "null", "[]", '{"a": [1, 2.5e3]}', "true"], ["", "[", "nul", "{a: 1}", "01", "+1"]),
    ({"type": "object"}, ["{}", '{"a":1}', '{ "b" : {} }'], ["[]", "1", '{"a"}', '{"a":1,}', "{}{}"]),
    (
        PERSON,
        ['{"name":"Bo","age":3}', '{\n  "name": "",\n  "age": 150\n}'],
        ['{"name":"Bo"}', '{"name":"Bo","age":-1}', '{"name":"Bo","age":151}', '{"name":"Bo","age":3,"x":1}'],
    ),
    (TREE, ['{"value":1}', '{"value":1,"children":[{"value":2}]}'], ['{"value":1,"children":[{}]}', "1"]),
    (
        {"type": "string"},
        ['"a"', r'"\n\"\\"', '"é世🙂"', '""'],
        ['"a', "a", '"\n"', r'"\x"', r'"\ud800"', "1"],
    ),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"éa世"'], ['"a"', '"abcd"']),
    ({"type": "string", "pattern": "^[a-c]+$"}, ['"abc"'], ['"abd"', '""']),
    ({"type": "string", "format": "date"}, ['"2026-11-29"'], ['"2026-13-01"', '"today"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"']),
    ({"type": "integer"}, ["0", "-5", "123456789012345678901"], ["1.5", "1e3", "00", "-", '"1"']),
    ({"type": "number"}, ["0", "-5.25", "1e3", "1.0E-7"], [".5", "5.", "1e", "NaN"]),
    ({"type": "integer", "exclusiveMinimum": 3, "maximum": 12}, ["4", "9", "12"], ["3", "13", "0"]),
    ({"type": "integer", "multipleOf": 7}, ["0", "7", "49"], ["8", "50"]),
    ({"type": "boolean"}, ["true", "false"], ["True", "1", "null"]),
    ({"type": "null"}, ["null"], ["nil", "0"]),
    ({"type": ["integer", "null"]}, ["1", "null"], ['"1"', "true"]),
    ({"enum": ["a", 1, None, [1, {"b": 2}]]}, ['"a"', "1", "null", '[1,{"b":2}]'], ['"b"', "2", "[]"]),
    ({"const": {"a": 1}}, ['{"a":1}'], ['{"a":2}', "{}"]),
    (
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        ["[1]", "[1, 2]"],
        ["[]"],
    ),
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, ['[1,"a"]'], ['["a",1]']),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, ["5", '"a"'], ['"ab"', "null"]),
    ({"allOf": [{"minimum": 3}, {"maximum": 4}], "type": "integer"}, ["3", "4"], ["2", "5"]),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, ["5", '"a"'], ["null"]),
    (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        ["{}", '{"a":1,"b":2}'],
        ['{"a":"b"}', '{"a":1,"b":null}'],
    ),
    (
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        ['{"x1":1}', "{}"],
        ['{"y":1}', '{"x":"a"}'],
    ),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}, ['{"b":1}'], ['{"a":1}', "{}"]),
)

KIND = {"kind": {"enum": ["a", "b", "c"]}}
REWRITTEN: tuple[tuple[object, list[str], list[str]], ...] = (
    ({"not": {"type": "string"}}, ["1", "null", "[]"], ['"a"']),
    ({"type": "string", "not": {"enum": ["a", "ab", ""]}}, ['"b"', '"abc"', '"aa"'], ['"a"', '"ab"', '""']),
    ({"type": "string", "not": {"const": "x.y"}}, ['"x,y"', '"x."', '"x.yz"'], ['"x.y"']),
    ({"type": "integer", "not": {"enum": [3, 5]}}, ["2", "4", "6"], ["3", "5"]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, ["1", '"ab"'], ['"a"']),
    (
        {
            "type": "object",
            "properties": KIND | {"x": {"type": "integer"}},
            "required": ["kind"],
            "additionalProperties": False,
            "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            "then": {"required": ["x"]},
            "else": {"properties": {"x": False}},
        },
        ['{"kind":"a","x":1}', '{"kind":"b"}'],
        ['{"kind":"a"}', '{"kind":"b","x":1}', '{"x":1}'],
    ),
    (
        {"oneOf": [{"properties": KIND, "required": ["kind"]}, {"type": "number"}]},
        ['{"kind":"b"}', '"a"'],
        ['{"kind":"z"}', "3"],
    ),
    ({"oneOf": [{"minimum": 3}, {"type": "string"}]}, ["3", "[]", "4.5"], ["2", '"a"']),
    ({"type": "object", "propertyNames": {"pattern": "^a"}}, ['{"ab":1}', "{}"], ['{"b":1}']),
    ({"type": "object", "propertyNames": {"enum": ["a", "b"]}}, ['{"a":1,"b":2}', "{}"], ['{"c":1}']),
    ({"type": "object", "propertyNames": {"maxLength": 2}}, ['{"ab":1}'], ['{"abc":1}']),
    ({"type": "object", "propertyNames": {"type": "string"}}, ['{"ab":1}'], ["1"]),
    (
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        ['{"a":1,"b":2}', '{"b":1}', "{}"],
        ['{"a":1}', '{"c":1,"a":1}'],
    ),
    (
        {"type": "object", "dependencies": {"a": {"properties": {"b": {"type": "integer"}}}}},
        ['{"b":2,"a":1}', '{"b":"x"}'],
        ['{"b":"x","a":1}'],
    ),
    (
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 1},
        ['["a"]', '["c","a"]', '["b","c","a"]'],
        ["[]", '["a","a"]', '["a","b","a"]', '["d"]'],
    ),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, ["[]", "[5]"], ["[5,5]"]),
    (
        {"type": "array", "contains": {"const": 1}, "maxItems": 3},
        ["[1]", "[2,1]", '["a",2,1]'],
        ["[]", "[2,3]"],
    ),
    (
        {
            "$defs": {"base": {"properties": {"a": {"type": "integer"}}}},
            "type": "object",
            "properties": {"b": {}},
            "allOf": [{"$ref": "#/$defs/base"}],
            "unevaluatedProperties": False,
        },
        ['{"b":1,"a":2}', "{}"],
        ['{"c":1}', '{"a":"x"}'],
    ),
    (
        {
            "anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"type": "object"}],
            "unevaluatedProperties": False,
        },
        ['{"a":1}', "{}"],
        ['{"b":1}', '{"a":1,"b":1}'],
    ),
    (
        {"type": "array", "items": [{"type": "integer"}], "additionalItems": False},
        ["[1]", "[]"],
        ["[1,2]", '["a"]'],
    ),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, ["4"], ["3"]),
    ({"type": "string", "maxLength": 2.0}, ['"ab"'], ['"abc"']),
    ({"$id": "urn:x:y", "$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "#odd", "$defs": {"a": {"$anchor": "odd", "type": "null"}}}, ["null"], ["1"]),
    ({"x-guidance": {"lenient": True}, "type": "integer"}, ["1"], ['"a"']),
    ({"type": "object", "propertyNames": {}}, ['{"a":1}'], ["1"]),
    (
        {"type": "object", "propertyNames": {"const": "a", "enum": ["a", "b"]}},
        ["{}", '{"a":1}'],
        ['{"b":1}'],
    ),
    ({"type": "object", "propertyNames": {"const": "a", "enum": ["b"]}}, ["{}"], ['{"a":1}', '{"b":1}']),
    ({"type": "array", "items": {"const": 1, "enum": [2]}, "uniqueItems": True}, ["[]"], ["[1]", "[2]"]),
    (
        {"type": "array", "allOf": [{"items": [{"type": "integer"}]}], "unevaluatedItems": False},
        ["[]", "[1]"],
        ["[1,2]", '["a"]'],
    ),
    (
        {"properties": {"a": {"$recursiveRef": "#"}}, "additionalProperties": False, "type": "object"},
        ["{}", '{"a":{"a":{}}}'],
        ['{"a":1}', '{"a":{"b":1}}'],
    ),
)

REFUSED: tuple[tuple[object, str], ...] = (
    ({"type": "array", "uniqueItems": True}, "'uniqueItems' at #: .*enum"),
    ({"properties": {"a": {"not": {"multipleOf": 3}}}}, "'not' at #/properties/a: "),
    ({"if": {"pattern": "^a"}, "then": {"minLength": 2}, "else": {"maxLength": 1}}, "'if' at #: "),
    ({"anyOf": [{"type": "array", "contains": {"type": "integer"}}]}, "'contains' at #/anyOf/0: .*maxItems"),
    ({"propertyNames": {"pattern": "^a"}, "properties": {"a": {}}}, "'propertyNames' at #: "),
    ({"items": {"oneOf": [{"type": "integer"}, {"multipleOf": 2}]}}, "'oneOf' at #/items: "),
    ({"properties": {"a": {"properties": {"b": {"not": {"type": "integer"}}}}}}, "'not' at #/properties/a/p"),
    ({"properties": {"a/b": {"type": "string", "format": "zork"}}}, "'format' at #/properties/a~1b: .*zork"),
    ({"items": {"pattern": "(?=a)b"}}, "'pattern' at #/items: no regex: look-ahead and look-behind"),
    ({"patternProperties": {"(": {}}}, "'patternProperties' at #: no regex"),
    ({"prefixItems": [{}, {"type": "zork"}]}, "'type' at #/prefixItems/1: .*zork"),
    ({"allOf": [{"$ref": "#/nowhere"}]}, "'.ref' at #/allOf/0: .*nowhere"),
    ({"$ref": "https://example.org/schema"}, "'.ref' at #: .*example.org"),
    ({"$ref": f"#/allOf/{'9' * 5000}", "allOf": [{}]}, "'.ref' at #: .*nothing at"),
    ({"$ref": "#a", "$defs": {"b": {"$id": "b", "$anchor": "a"}}}, "'.ref' at #: "),
    ({"$dynamicRef": "#x"}, "#x"),
    (
        {"prefixItems": [{"type": "integer", "minimum": 3, "maximum": 2}], "minItems": 1, "type": "array"},
        "'minimum' at #/prefixItems/0: nothing satisfies it",
    ),
    ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "nothing satisfies it"),
    ({"properties": {"a": {"minLength": -1}}}, "'minLength' at #/properties/a: .*-1"),
    ({"required": "a"}, "'required' at #: "),
    ({"properties": {"a": 3}}, "#/properties/a"),
    ({"anyOf": []}, "'anyOf' at #: nothing satisfies it"),
    ({"multipleOf": 0}, "'multipleOf' at #: "),
    ({"not": {"const": 10**400}}, "'const' at #/not: .*digits"),
    ({"unevaluatedItems": False, "allOf": [{"allOf": 3}]}, "'allOf' at #/allOf/0: expected a list"),
    ({"unevaluatedItems": False, "allOf": [{"prefixItems": 3}]}, "'prefixItems' at #/allOf/0: "),
    (False, "false"),
    ({"a": object()}, "JSON"),
    ({"a": float("nan")}, "JSON"),
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return tokenizer_from_gguf(open_gguf(smollm2_path))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> FormatCompiler:
    return FormatCompiler(tokenizer)


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer_from_gguf(open_gguf(write_tiny_model(tmp_path_factory.mktemp("bytes") / "tiny.gguf")))


def admits(compiler: FormatCompiler, tokenizer: Tokenizer, form: ResponseFormat, text: str) -> bool:
    rules = compiler.compile(form)()
    for token in tokenizer.encode(text, add_special_tokens=False, parse_special=False):
        if rules.is_complete or not rules.allowed()[token]:
            return False
        rules.accept(token)
    return rules.may_end


@pytest.mark.parametrize(("schema", "valid", "invalid"), JSON_CASES + REWRITTEN)
def test_a_schema_admits_what_it_describes_and_nothing_else(
    compiler: FormatCompiler,
    tokenizer: Tokenizer,
    schema: dict[str, object],
    valid: list[str],
    invalid: list[str],
) -> None:
    form = ResponseFormat.json_schema(schema)
    assert [text for text in valid if not admits(compiler, tokenizer, form, text)] == []
    assert [text for text in invalid if admits(compiler, tokenizer, form, text)] == []


FOREIGN = re.compile(r"lexer|look-?around|target type|EOF|prematurely| \^ |got \(|get_error|compliant")
"""Words of the libraries that find the faults."""

INNER = re.compile(r"\n|<state>|panic|start:|%json|%llguidance|json-schema:|\d \| ")
"""What only those who wrote the grammars that a format becomes can make sense of."""


@pytest.mark.parametrize(("schema", "word"), REFUSED)
def test_a_schema_that_cannot_be_enforced_is_refused_with_the_reason(
    compiler: FormatCompiler, schema: dict[str, object], word: str
) -> None:
    with pytest.raises(UnenforceableFormat, match=word) as caught:
        compiler.compile(ResponseFormat.json_schema(schema))
    assert caught.value.kind == "json_schema"
    assert not INNER.search(caught.value.message)


FORMATS = (
    (ResponseFormat.json_object(), ["{}"], ["[]", "text"]),
    (
        ResponseFormat.regex(r"[a-z]+@[a-z]+\.(com|org)"),
        ["me@here.org"],
        ["me@here.net", "me", "me@here.orgx"],
    ),
    (ResponseFormat.regex("é?世"), ["世", "é世"], ["é", "a"]),
    (ResponseFormat.choice(["yes", "no", "no way"]), ["yes", "no", "no way"], ["", "maybe", "no w"]),
    (ResponseFormat.choice([""]), [""], ["a"]),
    (ResponseFormat.grammar('root ::= "a" [0-9]+ | "b"'), ["a12", "b"], ["a", "c", "b1"]),
    (ResponseFormat.grammar('start: "a" /[0-9]+/ | "b"'), ["a12", "b"], ["a", "c", "b1"]),
    (ResponseFormat.grammar('root ::= "(" root ")" | ""'), ["", "()", "((()))"], ["(()", ")"]),
)


@pytest.mark.parametrize(("form", "valid", "invalid"), FORMATS)
def test_patterns_choices_and_grammars_admit_what_they_say(
    compiler: FormatCompiler, tokenizer: Tokenizer, form: ResponseFormat, valid: list[str], invalid: list[str]
) -> None:
    assert [text for text in valid if not admits(compiler, tokenizer, form, text)] == []
    assert [text for text in invalid if admits(compiler, tokenizer, form, text)] == []


@pytest.mark.parametrize(
    ("form", "word"),
    [
        (ResponseFormat.regex("("), "no regex: unclosed"),
        (ResponseFormat.regex("(?<=a)b"), "look-"),
        (ResponseFormat.regex(r"(a)\1"), "backreferences"),
        (ResponseFormat.regex("[z-a]"), "range"),
        (ResponseFormat.regex("(" * 20_000), "."),
        (ResponseFormat.grammar("root ::= ("), "GBNF"),
        (ResponseFormat.grammar('root ::= "a" nowhere'), "nowhere"),
        (ResponseFormat.grammar('root ::= "a"{3,2}'), "range"),
        (ResponseFormat.grammar("root ::= [^]"), "unclosed character class"),
        (ResponseFormat.grammar("root ::= " + "(" * 20_000), "nested too deeply"),
        (ResponseFormat.grammar("root ::= a\na ::= b\nb ::= a"), "nothing satisfies it"),
        (ResponseFormat.grammar(""), "root"),
        (ResponseFormat.grammar("\x00"), "GBNF"),
        (ResponseFormat.grammar("garbage"), "line 1: expected ::= before the end"),
        (ResponseFormat.grammar("root ::= [a"), "line 1: a text or class has no end"),
        (ResponseFormat.grammar('root ::= "\\x"'), r"line 1: no such escape: \\x"),
        (ResponseFormat.grammar("root ::= <x>"), "line 1: expected name before '<x>'"),
        (ResponseFormat.grammar('x ::= "a"'), "it has no rule 'root'"),
        (ResponseFormat.grammar('root ::= "a"{99999999999999999999}'), "a number is too large"),
        (ResponseFormat.grammar('start: "a" %'), "line 1, column 13: a character does not belong there"),
        (ResponseFormat.grammar("start: %json {"), "a schema within it is no JSON"),
        (ResponseFormat.grammar('start: %regex {"x":1}'), "%regex is not followed by"),
        (ResponseFormat.grammar("start: <[99999999]>"), "the vocabulary has no token 99999999"),
        (ResponseFormat.regex(r"\bfoo"), "anchors and word boundaries are not supported"),
        (ResponseFormat.regex("*"), "a repetition has nothing before it"),
        (ResponseFormat.regex("a(?>b)"), "no such group or flag"),
        (ResponseFormat.regex("a{2,1}"), "a repetition count range ends before it begins"),
        (ResponseFormat.regex("\\u12"), "an escape is not complete"),
        (ResponseFormat.json_schema({"format": "nope", "type": "string"}), "no format nope is known"),
        (ResponseFormat.json_schema({"minLength": 1e30, "type": "string"}), "expected a whole number, found"),
        (ResponseFormat.grammar("start: nowhere"), 'line 1, column 8: unknown name: "nowhere"'),
        (ResponseFormat.grammar("start: ("), "line 1"),
        (ResponseFormat.grammar("start: /(/"), "unclosed group"),
        (ResponseFormat.grammar("start: A\nA: A"), "circular"),
        (ResponseFormat.grammar("start: <nowhere>"), "nowhere"),
        (ResponseFormat.grammar("start: start"), "nothing satisfies it"),
        (ResponseFormat.grammar('start: start "a"'), "nothing satisfies it"),
        (ResponseFormat.grammar('start: "a"\nstart: "b"'), "duplicate rule"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_the_reason(
    compiler: FormatCompiler, form: ResponseFormat, word: str
) -> None:
    with pytest.raises(UnenforceableFormat, match=word) as caught:
        compiler.compile(form)
    assert not INNER.search(caught.value.reason) and len(caught.value.reason) < 600
    assert not FOREIGN.search(caught.value.reason)


def test_a_schema_of_what_json_has_not_is_refused_in_own_words() -> None:
    for schema in ({"minimum": float("nan")}, {"const": {1, 2}}, {"minimum": 10**5000}):
        with pytest.raises(UnenforceableFormat, match="it holds what JSON has not, such as NaN"):
            ResponseFormat.json_schema(schema)


def test_a_schema_of_too_many_parts_is_refused() -> None:
    schema: dict[str, object] = {"anyOf": [{"const": i} for i in range(60_000)]}
    with pytest.raises(UnenforceableFormat, match="too many possibilities"):
        prepared(SchemaDocument(schema), schema, Place())


@pytest.mark.parametrize("sign", [":", "::="])
@pytest.mark.parametrize("rule", ['"x" {} | "y"', '{} "x" | "y"'])
def test_a_grammar_of_too_many_rules_is_refused(compiler: FormatCompiler, sign: str, rule: str) -> None:
    first = {":": "start", "::=": "root"}[sign]
    rules = [f"{first} {sign} r0", *(f"r{i} {sign} {rule.format(f'r{i + 1}')}" for i in range(1500))]
    form = ResponseFormat.grammar("\n".join([*rules, f'r1500 {sign} "z"']))
    with pytest.raises(UnenforceableFormat, match="more than 1000 rules"):
        compiler.compile(form)


def test_choices_must_be_texts() -> None:
    for options in ([], "yes", ["a", 1]):
        with pytest.raises(UnenforceableFormat, match="texts"):
            ResponseFormat.choice(options)  # type: ignore[arg-type]


def test_answers_to_one_format_do_not_share_their_progress(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    compiled = compiler.compile(ResponseFormat.choice(["aa", "bb"]))
    first, second = compiled(), compiled()
    first.accept(tokenizer.encode("b", add_special_tokens=False)[0])
    assert not np.array_equal(first.allowed(), second.allowed())
    assert np.array_equal(compiled().allowed(), second.allowed())


def test_tokens_that_end_an_answer_are_never_allowed(compiler: FormatCompiler, tokenizer: Tokenizer) -> None:
    rules = compiler.compile(ResponseFormat.regex("(a|b)*"))()
    assert rules.may_end and not rules.is_complete
    assert not rules.allowed()[list(tokenizer.eos_token_ids)].any()


def test_special_tokens_are_not_the_text_they_are_spelt_as(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    rules = compiler.compile(ResponseFormat.regex("(.|\n)*"))()
    special = tokenizer.token_to_id("<|im_start|>")
    assert special is not None and not rules.allowed()[special]


# A delete character comes neither as it is nor escaped.
TEXTS = st.text(st.characters(exclude_characters="\x7f", exclude_categories=["Cs"]))


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    )
)
def test_any_json_is_admitted_byte_by_byte(
    bytewise: Tokenizer, any_json: FormatCompiler, value: object
) -> None:
    form = ResponseFormat.json_schema(True)
    assert admits(any_json, bytewise, form, json.dumps(value, ensure_ascii=False))


@pytest.fixture(scope="module")
def any_json(bytewise: Tokenizer) -> FormatCompiler:
    return FormatCompiler(bytewise)


def test_spaces_between_tokens_of_json_are_bounded(compiler: FormatCompiler, tokenizer: Tokenizer) -> None:
    form = ResponseFormat.json_object()
    assert admits(compiler, tokenizer, form, '{\n    "a": 1\n}')
    assert not admits(compiler, tokenizer, form, "{" + " " * 200 + "}")


@pytest.mark.parametrize("form", [ResponseFormat.choice(["x" * 60_000]), ResponseFormat.regex("a{40000}")])
def test_long_texts_that_must_come_are_looked_for_once(
    compiler: FormatCompiler, tokenizer: Tokenizer, form: ResponseFormat
) -> None:
    compiled = compiler.compile(form)
    rules = compiled()
    known = list(rules.forced())
    assert len(known) > 5000
    started = time.thread_time()
    for token in known[:500]:
        assert rules.forced()[0] == token and rules.allowed().nonzero()[0].tolist() == [token]
        rules.accept(token)
    assert time.thread_time() - started < 1
    again = compiled()
    for token in known[:500]:
        again.accept(token)
    text = tokenizer.decode(list(rules.forced())[:50], skip_special_tokens=False)
    assert text == tokenizer.decode(list(again.forced())[:50], skip_special_tokens=False)


@pytest.mark.parametrize("pattern", ["a{99999}", "((a{1000}){1000}){1000}"])
def test_a_text_that_must_come_and_is_too_long_to_be_followed_is_refused(
    compiler: FormatCompiler, pattern: str
) -> None:
    started = time.thread_time()
    with pytest.raises(UnenforceableFormat, match="too many possibilities"):
        compiler.compile(ResponseFormat.regex(pattern))
    assert time.thread_time() - started < 2


def test_an_answer_that_becomes_too_much_with_every_token_ends(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    rules = compiler.compile(ResponseFormat.regex("(b|c)a{99999}"))()
    rules.accept(tokenizer.encode("b", add_special_tokens=False)[0])
    with pytest.raises(ConstraintFailure, match="too many possibilities"):
        for _ in range(20):
            rules.accept(rules.forced()[0])


def test_annotations_do_not_count_where_a_schema_is_long(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    said = {"description": "d" * 60_000, "title": "t" * 60_000, "default": ["x" * 60_000]}
    named = {
        "description": {"type": "integer", **said},
        "default": {"enum": ["a"], "examples": ["y" * 60_000]},
    }
    schema = {"type": "object", "properties": named, "additionalProperties": False, **said}
    form = ResponseFormat.json_schema(schema)
    assert admits(compiler, tokenizer, form, '{"description": 1, "default": "a"}')
    assert not admits(compiler, tokenizer, form, '{"description": "a"}')
    assert not admits(compiler, tokenizer, form, '{"default": "b"}')


def test_the_last_formats_are_kept(compiler: FormatCompiler) -> None:
    form = ResponseFormat.choice(["kept"])
    assert compiler.compile(form) is compiler.compile(form)


def kinds_of(values: Iterable[object]) -> list[Schema]:
    """Objects of which a property tells the kind."""
    return [{"type": "object", "properties": {"k": {"const": value}}, "required": ["k"]} for value in values]


def test_a_format_that_is_kept_need_not_wait_for_another_one(compiler: FormatCompiler) -> None:
    many = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1500)}}
    kept, slow = ResponseFormat.choice(["kept"]), ResponseFormat.json_schema(many)
    compiler.compile(kept)
    thread = threading.Thread(target=compiler.compile, args=(slow,))
    thread.start()
    time.sleep(0.1)
    compiler.compile(kept)
    assert thread.is_alive()
    thread.join()


def test_a_cheap_format_waits_for_no_dear_one(compiler: FormatCompiler) -> None:
    compiler.compile(ResponseFormat.json_object())
    doubled = "\n".join(f"a{i} ::= a{i + 1} a{i + 1}" for i in range(40))

    def refused(end: str) -> float:
        started = time.thread_time()
        with pytest.raises(UnenforceableFormat, match="too many possibilities"):
            compiler.compile(ResponseFormat.grammar(f'root ::= a0\n{doubled}\na40 ::= "{end}"'))
        return time.thread_time() - started

    with ThreadPoolExecutor(4) as threads:
        dear = [threads.submit(refused, end) for end in "wxyz"]
        time.sleep(0.02)
        compiler.compile(ResponseFormat.choice(["a", "cheap", "one"]))
        assert not all(one.done() for one in dear)
    assert max(one.result() for one in dear) < 1.5


@pytest.mark.parametrize("make", [ResponseFormat.regex, ResponseFormat.grammar])
def test_formats_of_too_long_a_text_are_refused(make: Callable[[str], ResponseFormat]) -> None:
    assert len(make("a" * MOST_TEXT).text) == MOST_TEXT
    with pytest.raises(UnenforceableFormat, match=r"65537 characters; at most 65536 are allowed"):
        make("a" * (MOST_TEXT + 1))


def test_choices_and_schemas_of_too_long_a_text_are_refused() -> None:
    with pytest.raises(UnenforceableFormat, match="at most 65536 are allowed"):
        ResponseFormat.choice(["x" * 3000] * 1000)
    with pytest.raises(UnenforceableFormat, match="at most 65536 are allowed"):
        ResponseFormat.json_schema({"enum": ["x" * MOST_TEXT]})


@pytest.mark.parametrize("text", ["root ::= ", 'root ::= ""'])
def test_an_empty_grammar_means_the_empty_answer(compiler: FormatCompiler, text: str) -> None:
    rules = compiler.compile(ResponseFormat.grammar(text))()
    assert rules.may_end and rules.is_complete


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "integer", "minimum": 10**300}, "'minimum' at #: expected a number up to 92233"),
        (
            {"type": "number", "maximum": -1e300},
            "'maximum' at #: expected a number from -9223372036854775807 up",
        ),
        ({"type": "integer", "multipleOf": -1}, "'multipleOf' at #: expected a number above 0, found -1"),
        ({"type": "integer", "multipleOf": 0}, "'multipleOf' at #: expected a number above 0, found 0"),
    ],
)
def test_ranges_without_sense_are_told_in_our_words(
    compiler: FormatCompiler, schema: dict[str, object], reason: str
) -> None:
    with pytest.raises(UnenforceableFormat, match=reason) as caught:
        compiler.compile(ResponseFormat.json_schema(schema))
    assert "Some(" not in caught.value.reason


def test_the_place_of_a_fault_is_said_once() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"$ref": "#/nope"}}}
    fault = fault_of(SchemaDocument(schema))
    assert fault is not None
    assert fault.reason == "'$ref' at #/properties/a: the schema has nothing at '#/nope'"


def untold(count: int) -> list[Schema]:
    """Objects that no property tells apart."""
    return [{"type": "object", "properties": {f"p{i}": {"type": "integer"}}} for i in range(count)]


TOWER: dict[str, Schema] = {
    **{str(i): {"anyOf": [{"$ref": f"#/$defs/{i + 1}"}] * 40} for i in range(20)},
    "20": {"type": "integer"},
}


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": untold(500)},
        {"properties": {f"p{i}": {"oneOf": untold(100)} for i in range(8)}},
        {"oneOf": [{"$ref": "#/$defs/0"}] * 2, "$defs": TOWER},
    ],
)
def test_schemas_that_overlap_in_many_ways_are_refused_by_keyword_within_a_second(
    compiler: FormatCompiler, schema: dict[str, object]
) -> None:
    form = ResponseFormat.json_schema(schema)
    started = time.thread_time()
    with pytest.raises(UnenforceableFormat, match=r"'oneOf' at #.*: "):
        compiler.compile(form)
    assert time.thread_time() - started < 1


REPEATED = (
    ResponseFormat.regex("x*" * 30_000),
    ResponseFormat.regex("(a|)" * 15_000),
    ResponseFormat.grammar("start: " + '"x"? ' * 10_000),
    ResponseFormat.grammar("start: /" + "x?" * 30_000 + "/"),
    ResponseFormat.grammar("root ::= " + '("x" | ) ' * 6000),
    ResponseFormat.json_schema({"pattern": "x*" * 30_000}),
    ResponseFormat.json_schema({"properties": {f"p{i}": {"pattern": "x+" * 900} for i in range(30)}}),
    ResponseFormat.json_schema({"patternProperties": {"x*" * 30_000: {}}}),
)


@pytest.mark.parametrize("form", REPEATED, ids=lambda form: form.kind)
def test_formats_that_repeat_too_often_are_refused_at_once(
    compiler: FormatCompiler, form: ResponseFormat
) -> None:
    started = time.thread_time()
    with pytest.raises(UnenforceableFormat, match="repetitions; at most 4000 are allowed"):
        compiler.compile(form)
    assert time.thread_time() - started < 0.3


def test_hostile_schemas_end_in_time(compiler: FormatCompiler) -> None:
    wide = {"anyOf": [{"type": "object", "properties": {f"p{i}": {"type": "string"}}} for i in range(1000)]}
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"items": deep}
    started = time.process_time()
    repeated = ResponseFormat.regex("((a{1000}){1000}){1000}")
    for form in (ResponseFormat.json_schema(wide), ResponseFormat.json_schema(deep), repeated):
        try:
            compiler.compile(form)
        except UnenforceableFormat:
            continue
    assert time.process_time() - started < 30


def test_lists_of_many_different_items_are_refused_in_time(compiler: FormatCompiler) -> None:
    started = time.thread_time()
    many = {"type": "array", "items": {"enum": list(range(10_000))}, "uniqueItems": True}
    with pytest.raises(UnenforceableFormat, match=r"'uniqueItems' at #: .*2000 lists"):
        compiler.compile(ResponseFormat.json_schema(many))
    assert time.thread_time() - started < 5


@pytest.mark.parametrize(
    "around",
    [
        {"unevaluatedProperties": False, "$ref": "#/$defs/0"},
        {"oneOf": [{"$ref": "#/$defs/0"}, {"$ref": "#/$defs/0"}]},
        {"not": {"$ref": "#/$defs/0"}},
    ],
)
@pytest.mark.parametrize("key", ["allOf", "anyOf"])
def test_schemas_that_refer_to_each_other_in_countless_ways_end_in_time(
    around: dict[str, object], key: str
) -> None:
    parts: dict[str, object] = {str(i): {key: [{"$ref": f"#/$defs/{i + 1}"}] * 40} for i in range(20)}
    schema = {**around, "$defs": {**parts, "20": {"type": "string", "maxLength": 4}}}
    started = time.process_time()
    with suppress(UnenforceableFormat):
        prepared(SchemaDocument(schema), schema, Place())
    assert time.process_time() - started < 20


def test_kinds_that_a_property_tells_apart_take_time_as_they_are_many() -> None:
    kinds = kinds_of(range(4000))
    referred = [{"$ref": f"#/$defs/{i}"} for i in range(len(kinds))]
    definitions = {str(i): kind for i, kind in enumerate(kinds)}
    schemas: list[dict[str, Any]] = [{"oneOf": kinds}, {"oneOf": referred, "$defs": definitions}]
    started = time.process_time()
    for schema in schemas:
        made = prepared(SchemaDocument(schema), schema, Place())
        assert isinstance(made, dict) and len(made["allOf"][0]["anyOf"]) == len(kinds)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("kinds", "right", "wrong"),
    [
        (kinds_of([1, 2, "1"]), ['{"k":1}', '{"k":"1"}'], ['{"k":3}']),
        (kinds_of([1, 2, 1.0]), ['{"k":2}'], ['{"k":1}']),
        ([*kinds_of([1, 2]), {"type": "object"}], [], ['{"k":1}', '{"k":2}']),
        ([*kinds_of([1, 2]), {"type": "string"}], ['{"k":1}', '"a"'], ['{"k":3}', "1"]),
        ([*kinds_of([1, 2]), {"minimum": 3}], ["3"], ['{"k":1}', "2"]),
    ],
)
def test_of_kinds_an_answer_is_exactly_one(
    compiler: FormatCompiler, tokenizer: Tokenizer, kinds: list[Schema], right: list[str], wrong: list[str]
) -> None:
    form = ResponseFormat.json_schema({"oneOf": kinds})
    for text in right:
        assert admits(compiler, tokenizer, form, text), text
    for text in wrong:
        assert not admits(compiler, tokenizer, form, text), text


@pytest.mark.slow
def test_what_is_wrong_is_looked_for_in_time(compiler: FormatCompiler) -> None:
    kinds = [{"type": "string"}, *kinds_of(range(300))]
    parts: dict[str, object] = {f"p{i}": {"$ref": "#/$defs/slow"} for i in range(100)}
    schema = {"properties": {**parts, "q": {"pattern": "("}}, "$defs": {"slow": {"oneOf": kinds}}}
    started = time.process_time()
    with pytest.raises(UnenforceableFormat, match="no regex"):
        compiler.compile(ResponseFormat.json_schema(schema))
    assert time.process_time() - started < 30


def test_the_right_keyword_is_named_behind_many_parts(compiler: FormatCompiler) -> None:
    many = {f"p{i}": {"type": "string"} for i in range(500)}
    schema = {"type": "object", "properties": many, "patternProperties": {"(": {}}}
    with pytest.raises(UnenforceableFormat, match="'patternProperties' at #: no regex"):
        compiler.compile(ResponseFormat.json_schema(schema))


def test_what_cannot_be_closed_is_left_open_where_that_may_be() -> None:
    choices: list[Schema] = [{"properties": {f"p{i}": {}}} for i in range(100)]
    schema: dict[str, Any] = {"type": "object", "anyOf": choices, "unevaluatedProperties": False}
    made = prepared(SchemaDocument(schema), schema, Place(), is_lenient=True)
    assert made == {"type": "object", "anyOf": choices}


def test_schemas_that_admit_less_than_they_should_are_no_ground_for_conclusions() -> None:
    both = [{"properties": {name: {"type": "integer"}}} for name in ("a", "b")]
    inner = {"oneOf": [{"$ref": "#"}, {"type": "object", "required": ["a", "b"]}]}
    schema: dict[str, Any] = {
        "type": "object",
        "anyOf": both,
        "properties": {"c": inner},
        "unevaluatedProperties": False,
    }
    with pytest.raises(UnenforceableFormat, match="'oneOf' at #/properties/c: "):
        prepared(SchemaDocument(schema), schema, Place())


WORDS = [f"{letter}{'xyz' * 12}{letter}" for letter in "abcdefghijklmnopqrstuvw"]


def test_what_answers_have_found_out_of_a_format_does_not_fill_up(bytewise: Tokenizer) -> None:
    compiler, form = FormatCompiler(bytewise, most_states=120), ResponseFormat.regex("|".join(WORDS))
    for word in WORDS * 2:
        assert admits(compiler, bytewise, form, word)


def test_a_format_of_more_states_than_are_told_apart_is_refused(bytewise: Tokenizer) -> None:
    patterns = {f"p{i}": {"type": "string", "pattern": f"^[a-z]{{1,{i + 1}}}x{i}$"} for i in range(20)}
    form = ResponseFormat.json_schema({"type": "object", "properties": patterns})
    with pytest.raises((UnenforceableFormat, ConstraintFailure), match="too many possibilities"):
        admits(FormatCompiler(bytewise, most_states=8), bytewise, form, '{"p1":"ax1"}')
