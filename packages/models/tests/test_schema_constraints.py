"""What JSON schemas admit, and why some cannot be enforced."""

from typing import Any

import pytest
from rase_core.errors import UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.constraints.schema import Place, SchemaDocument, fault_of, prepared
from rase_models.constraints.schema.keywords import Schema
from rase_models.testing_formats import INNER, admits, kinds_of
from rase_models.tokenizers import Tokenizer

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


@pytest.mark.parametrize(("schema", "word"), REFUSED)
def test_a_schema_that_cannot_be_enforced_is_refused_with_the_reason(
    compiler: FormatCompiler, schema: dict[str, object], word: str
) -> None:
    with pytest.raises(UnenforceableFormat, match=word) as caught:
        compiler.compile(ResponseFormat.json_schema(schema))
    assert caught.value.kind == "json_schema"
    assert not INNER.search(caught.value.message)


def test_a_schema_of_what_json_has_not_is_refused_in_own_words() -> None:
    for schema in ({"minimum": float("nan")}, {"const": {1, 2}}, {"minimum": 10**5000}):
        with pytest.raises(UnenforceableFormat, match="it holds what JSON has not, such as NaN"):
            ResponseFormat.json_schema(schema)


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
