"""What is wrong with a format is said in words for those who do not see what it becomes."""

import pytest
from rase_core.errors import ConstraintFailure, UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.tokenizers import Tokenizer

HALF = "a text has half of a surrogate pair"
LARGE = "a number is too large"
MANY = "it has too many possibilities to be followed"
HARD = "^[ab]*{}[ab]{{1000}}$"

SCHEMAS: list[tuple[dict[str, object], str]] = [
    ({"type": "string", "pattern": "^a$", "minLength": 5}, "'pattern' at #: nothing satisfies it"),
    (
        {
            "items": {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
            "type": "array",
            "minItems": 1,
        },
        "'allOf' at #/items: nothing satisfies it",
    ),
    (
        {"type": "string", "pattern": "^[ab]*a[ab]{300}$", "minLength": 500, "maxLength": 1000},
        f"'pattern' at #: {MANY}",
    ),
    (
        {"type": "object", "patternProperties": {HARD.format("a"): {}, HARD.format("b"): {}}},
        f"'patternProperties' at #: {MANY}",
    ),
    (
        {"type": "object", "patternProperties": {"^a": {}, "b": {}}},
        "'patternProperties' at #: a name may match two of its patterns, which cannot be enforced",
    ),
    ({"type": "string", "pattern": "a{99999999999}"}, f"'pattern' at #: {LARGE}"),
    (
        {"properties": {"a": {"type": "string", "minLength": 2**40}}},
        f"'minLength' at #/properties/a: {LARGE}",
    ),
    ({"minLength": 10**400}, f"'minLength' at #: {LARGE}"),
    ({"minItems": 10**30}, f"'minItems' at #: {LARGE}"),
    ({"const": "\ud800"}, f"'const' at #: {HALF}"),
    ({"enum": ["a", "\udc00b"]}, f"'enum' at #: {HALF}"),
    ({"properties": {"a": {"properties": {"\ud800": {}}}}}, f"'properties' at #/properties/a: {HALF}"),
]


@pytest.mark.parametrize(("schema", "why"), SCHEMAS)
def test_a_schema_is_refused_by_keyword_place_and_reason(
    compiler: FormatCompiler, schema: dict[str, object], why: str
) -> None:
    with pytest.raises(UnenforceableFormat) as caught:
        compiler.compile(ResponseFormat.json_schema(schema))
    assert caught.value.reason == why


FORMATS = [
    (ResponseFormat.regex("a{99999999999}"), LARGE),
    (ResponseFormat.grammar('start: "a"{99999999999}'), LARGE),
    (ResponseFormat.grammar('root ::= "a"{99999999999}'), LARGE),
    (ResponseFormat.regex("\ud800"), HALF),
    (ResponseFormat.choice(["a", "\ud800"]), HALF),
    (ResponseFormat.grammar('root ::= "\ud800"'), HALF),
    (ResponseFormat.grammar('start: "\\ud800"'), HALF),
    (ResponseFormat.grammar('start: %json {"const": "\\ud800"}'), HALF),
]


@pytest.mark.parametrize(("form", "why"), FORMATS)
def test_a_format_is_refused_with_the_reason_alone(
    compiler: FormatCompiler, form: ResponseFormat, why: str
) -> None:
    with pytest.raises(UnenforceableFormat) as caught:
        compiler.compile(form)
    assert caught.value.reason.endswith(why)
    assert "escape" not in caught.value.reason and "codec" not in caught.value.reason


def test_an_answer_that_cannot_be_followed_any_further_ends_with_that_reason(bytewise: Tokenizer) -> None:
    patterns = [{"pattern": f"^[ab]*a[ab]{{{count}}}$"} for count in (1000, 1001)]
    form = ResponseFormat.json_schema({"type": "string", "allOf": patterns})
    rules = FormatCompiler(bytewise).compile(form)()
    with pytest.raises(ConstraintFailure) as caught:
        for token in bytewise.encode('"' + "ab" * 500, add_special_tokens=False):
            rules.accept(token)
    assert caught.value.reason == MANY
