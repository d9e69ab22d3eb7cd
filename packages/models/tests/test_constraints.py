"""What formats of answers admit: patterns, choices, grammars and any JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.errors import UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.testing_formats import FOREIGN, INNER, admits
from rase_models.tokenizers import Tokenizer

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
        (ResponseFormat.json_schema({"minLength": 1e30, "type": "string"}), "a number is too large"),
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


@pytest.mark.parametrize("text", ["root ::= ", 'root ::= ""'])
def test_an_empty_grammar_means_the_empty_answer(compiler: FormatCompiler, text: str) -> None:
    rules = compiler.compile(ResponseFormat.grammar(text))()
    assert rules.may_end and rules.is_complete
