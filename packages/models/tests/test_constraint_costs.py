"""Formats that would cost too much time or memory are refused, and the rest takes little."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from rase_core.errors import ConstraintFailure, UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.response_format import MOST_TEXT
from rase_models.constraints.schema import Place, SchemaDocument, prepared
from rase_models.constraints.schema.keywords import Schema
from rase_models.testing_formats import admits, kinds_of
from rase_models.tokenizers import Tokenizer


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


@pytest.mark.slow
def test_what_is_wrong_is_looked_for_in_time(compiler: FormatCompiler) -> None:
    kinds = [{"type": "string"}, *kinds_of(range(300))]
    parts: dict[str, object] = {f"p{i}": {"$ref": "#/$defs/slow"} for i in range(100)}
    schema = {"properties": {**parts, "q": {"pattern": "("}}, "$defs": {"slow": {"oneOf": kinds}}}
    started = time.process_time()
    with pytest.raises(UnenforceableFormat, match="no regex"):
        compiler.compile(ResponseFormat.json_schema(schema))
    assert time.process_time() - started < 30


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


def test_steps_whose_remainders_are_too_many_together_are_refused(compiler: FormatCompiler) -> None:
    def numbers(count: int, step: int) -> ResponseFormat:
        steps = {f"p{i}": {"type": "integer", "multipleOf": step + i} for i in range(count)}
        return ResponseFormat.json_schema({"properties": steps, "required": list(steps)})

    compiler.compile(numbers(10, 1001))
    for many in (numbers(10, 4001), numbers(1, 40_001)):
        with pytest.raises(UnenforceableFormat, match="too many possibilities"):
            compiler.compile(many)


def nested(depth: int, schema: Schema) -> Schema:
    return nested(depth - 1, {"type": "integer", "allOf": [schema]}) if depth else schema


MINIMUMS: list[Schema] = [{"minimum": i} for i in range(250)]


@pytest.mark.parametrize(
    "schema",
    [
        nested(16, {"anyOf": MINIMUMS, "allOf": [{"maximum": 1000 + i} for i in range(1500)]}),
        nested(100, {"anyOf": MINIMUMS}),
        {"anyOf": MINIMUMS, "enum": list(range(8000))},
        {"anyOf": [{"multipleOf": 1 + i / 100} for i in range(250)], "minimum": 1, "maximum": 1e9},
        {"allOf": [{"multipleOf": i + 0.5} for i in range(1_000_001, 1_002_001)], "minimum": 1},
    ],
)
def test_numbers_of_many_limits_are_told_or_refused_soon(schema: Schema) -> None:
    started = time.thread_time()
    with suppress(UnenforceableFormat):
        prepared(SchemaDocument(schema), schema, Place())
    assert time.thread_time() - started < 3


def test_limits_of_many_schemas_are_met_once(compiler: FormatCompiler, tokenizer: Tokenizer) -> None:
    schema = nested(5, {"anyOf": MINIMUMS, "allOf": [{"maximum": 1000 + i} for i in range(500)]})
    form = ResponseFormat.json_schema(schema)
    started = time.thread_time()
    assert admits(compiler, tokenizer, form, "1000") and not admits(compiler, tokenizer, form, "1001")
    assert time.thread_time() - started < 5
