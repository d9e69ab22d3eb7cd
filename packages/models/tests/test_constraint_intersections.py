"""Texts that must meet several regular expressions are refused by their place where that takes long."""

import time
from typing import Any

import pytest
from rase_core.errors import UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.testing_formats import admits
from rase_models.tokenizers import Tokenizer

WORDS = [f"word{i}" for i in range(30)]
HARD = [f"^[ab]*a[ab]{{{i}}}$" for i in range(10, 40)]
"""Each begins in two ways at once, so that all together begin in 2**30 ways."""

REGEXES = [f"/[ab]*a[ab]{{{i}}}/" for i in range(10, 40)]


def _each(patterns: list[str], wrap: Any = lambda text: text) -> list[dict[str, Any]]:
    return [wrap({"type": "string", "pattern": pattern}) for pattern in patterns]


def _objects(key: str, name: str, patterns: list[str]) -> dict[str, Any]:
    return {"type": "object", "allOf": _each(patterns, lambda text: {key: {name: text}})}


SCHEMAS: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "allOf": _each(HARD)}, "#/allOf/"),
    ({"type": "string", "allOf": _each(WORDS)}, "#/allOf/"),
    ({"type": "string", "format": "uri", "minLength": 3, "allOf": _each(HARD)}, "#/allOf/"),
    ({"type": "string", "anyOf": [{"allOf": _each(HARD)}, {"const": "a"}]}, "#/anyOf/0/allOf/"),
    (
        {
            "allOf": [{"$ref": f"#/$defs/{word}"} for word in WORDS],
            "$defs": dict(zip(WORDS, _each(WORDS), strict=True)),
        },
        "#/$defs/",
    ),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"allOf": _each(WORDS)}]}}},
        "#/$defs/a/anyOf/1",
    ),
    (_objects("properties", "a", HARD), "#/allOf/0/properties/a"),
    (_objects("patternProperties", "^a", HARD), "#/allOf/0/patternProperties/^a"),
    ({"type": "object", "allOf": _each(HARD, lambda text: {"additionalProperties": text})}, "#/allOf/"),
    ({"type": "array", "allOf": _each(HARD, lambda text: {"items": text})}, "#/allOf/"),
    ({"type": "array", "allOf": _each(HARD, lambda text: {"prefixItems": [text]})}, "#/allOf/"),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "string", "allOf": _each(WORDS[:8])}},
            "patternProperties": {"^a$": {"type": "string", "allOf": _each(HARD[:8])}},
        },
        "#/",
    ),
]


@pytest.mark.parametrize(("schema", "place"), SCHEMAS)
def test_a_text_with_too_many_patterns_to_meet_is_refused_by_its_place(
    compiler: FormatCompiler, schema: dict[str, Any], place: str
) -> None:
    with pytest.raises(UnenforceableFormat, match="too many possibilities") as caught:
        _timely(compiler, ResponseFormat.json_schema(schema))
    assert f"'pattern' at {place}" in str(caught.value)


GRAMMARS = [
    "start: T\nT: " + " & ".join(REGEXES),
    "start: T\nT: " + "\n  & ".join(REGEXES),
    "start: T\n" + "".join(f"T{i}: T{i - 1} & {REGEXES[i]}\n" for i in range(1, 30)) + "T0: /[ab]+/\nT: T29",
    "start: T\n"
    + "".join(f'T{i}: (T{i - 1} "c") & (T{i - 1} "d")\n' for i in range(1, 8))
    + "T0: /.*a.*/\nT: T7",
    "start: T\nT: ~(" + " | ".join(f"~/.*{word}.*/" for word in WORDS) + ") & " + " & ".join(REGEXES),
    "start: %lark {\nstart: T\nT: " + " & ".join(REGEXES) + "\n}",
    'start: %json {"allOf":[' + ",".join(f'{{"type":"string","pattern":"{word}"}}' for word in WORDS) + "]}",
]

NESTED = [
    r"/.*b/ & /(?:(?:x|[a-m])|(?:(?:(?:x){59,}|(?:\d|b)|[ab])){47,})(?:(?:(?:[a-m]\d|(?:\d){36,100}))*){28}/",
    r"~/ab/ & /[\s\S](?:(?:(?:.word){35,})?){29,}/ & ~/(?:(?:(?:(?:[ab]|.|\d)){19,100}|[ab]|[\s\S]))*"
    r"(?:(?:(?:x){29,100})+)*word/ & "
    r"/(?:(?:(?:[^a][ab]|\s)|(?:[^a]\s){44}|(?:(?:word)*)+)){8,100}(?:(?:a)?){3}/",
]
"""Repetitions within repetitions, each time of which may be begun at another place."""

GRAMMARS += [f"start: T\nT: {nested}" for nested in NESTED]


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_an_intersection_of_too_many_expressions_in_a_grammar_is_refused(
    compiler: FormatCompiler, grammar: str
) -> None:
    with pytest.raises(UnenforceableFormat, match="too many possibilities"):
        _timely(compiler, ResponseFormat.grammar(grammar))


@pytest.mark.parametrize("members", [2, 12, 200])
def test_long_expressions_that_begin_in_many_ways_are_refused_or_made_ready_soon(
    compiler: FormatCompiler, members: int
) -> None:
    wide = ["|".join(f"[a-{chr(97 + i % 26)}]{end}.{{{i}}}" for i in range(members)) for end in "xyz"]
    try:
        _timely(compiler, ResponseFormat.json_schema({"type": "string", "allOf": _each(wide)}))
    except UnenforceableFormat as error:
        assert "'pattern'" in str(error) or "'allOf'" in str(error)


def test_ways_of_choosing_patterns_are_looked_at_as_far_as_a_budget_goes(compiler: FormatCompiler) -> None:
    ways = [{"anyOf": _each([f"^[ab]*a[ab]{{{10 * i + k}}}$" for i in range(10)])} for k in range(5)]
    with pytest.raises(UnenforceableFormat):
        _timely(compiler, ResponseFormat.json_schema({"type": "string", "allOf": ways}))


def test_many_patterns_for_names_are_refused_each_of_which_is_compared_with_each(
    compiler: FormatCompiler,
) -> None:
    named: dict[str, object] = {f"^{i}[ab]*a[ab]{{5}}$": {} for i in range(1000, 2000)}
    with pytest.raises(UnenforceableFormat, match="'patternProperties' at #: it has more than 32 patterns"):
        _timely(compiler, ResponseFormat.json_schema({"type": "object", "patternProperties": named}))


def test_a_few_patterns_for_one_text_are_enforced_together(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    schema = {
        "type": "string",
        "minLength": 5,
        "allOf": _each(["^[a-z]+$", "b", "^a"]),
        "not": {"const": "abbbb"},
    }
    form = ResponseFormat.json_schema(schema)
    assert admits(compiler, tokenizer, form, '"aaaab"')
    for text in ("abbbb", "aaab", "baaaa", "aaaaa", "aaaaB"):
        assert not admits(compiler, tokenizer, form, f'"{text}"')


def test_patterns_of_different_texts_and_of_values_that_must_not_be_count_alone(
    compiler: FormatCompiler,
) -> None:
    apart = {"type": "object", "properties": dict(zip(WORDS, _each(WORDS), strict=True))}
    others = {"type": "string", "allOf": [{"not": {"const": word}} for word in WORDS]}
    for schema in (apart, others):
        compiler.compile(ResponseFormat.json_schema(schema))


def test_an_intersection_in_texts_and_comments_of_a_grammar_is_none(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    signs = " ".join(['"&"', "/&/"] * 20)
    form = ResponseFormat.grammar(f"start: T {signs} // {' & '.join(REGEXES)}\nT: /[a-m]/ & /[m-z]/")
    assert admits(compiler, tokenizer, form, "m" + "&" * 40)
    assert not admits(compiler, tokenizer, form, "a" + "&" * 40)


def _timely(compiler: FormatCompiler, form: ResponseFormat) -> None:
    """Compile a format; refuse to take long."""
    started = time.thread_time()
    try:
        compiler.compile(form)
    finally:
        assert time.thread_time() - started < 2


def test_rules_that_refer_to_each_other_too_deeply_are_refused(compiler: FormatCompiler) -> None:
    chain = "".join(f"T{number}: T{number + 1}\n" for number in range(900))
    grammar = f"start: T0\n{chain}T900: /a/ & /b/\n"
    with pytest.raises(UnenforceableFormat, match="refer to each other too deeply"):
        compiler.compile(ResponseFormat.grammar(grammar))
