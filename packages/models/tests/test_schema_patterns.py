"""Patterns of schemas mean what they mean in ECMA 262."""

import json
import time

import pytest
from rase_core.errors import UnenforceableFormat
from rase_models.constraints import FormatCompiler, ResponseFormat
from rase_models.testing_formats import admits
from rase_models.tokenizers import Tokenizer

CASES: list[tuple[str, list[str], list[str]]] = [
    ("^[a-z&&[aeiou]]$", ["a]", "[]", "&]"], ["a", "e"]),
    (r"^[\w&&[^\d]]+$", ["1]", "a]]", "&]"], ["abc", "]"]),
    ("^[a&&b]$", ["a", "&", "b"], ["c"]),
    ("^[a~~b]$", ["a", "~", "b"], ["c"]),
    ("^[0-9--4]$", ["-", "4", "0", ".", "/"], ["a", "+"]),
    ("^[+--]$", ["+", ",", "-"], ["a", "."]),
    ("^[[a]b]$", ["[b]", "ab]"], ["a", "b", "["]),
    ("^[[:alpha:]]$", [":]", "a]", "[]"], ["b", "z", "a"]),
    ("^[[]$", ["["], ["a"]),
    ("^[^[]$", ["a", "]"], ["["]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^[\]\\^-]+$", ["]", "\\", "^", "-"], ["[", "a"]),
    (r"^[\w-.]$", ["-", ".", "a"], ["+"]),
    (r"^[a-\d]$", ["-", "a", "1"], ["b"]),
    (r"^[^\s-x]$", ["a"], [" ", "-", "x"]),
    (r"^[a\S]$", ["b"], [" ", "\ufeff"]),
    ("^[^]$", ["a", "\n"], ["", "ab"]),
    ("^(?:[]|b)$", ["b"], [""]),
    ("^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028", "\u2029", "ab"]),
    (r"^\s$", [" ", "\u00a0", "\ufeff", "\u2028", "\t", "\v", "\u3000"], ["\x85", "a", "\u180e"]),
    (r"^\S$", ["\x85", "a", "\u180e"], ["\ufeff", " ", "\u2029"]),
    (r"^\d\D\w\W$", ["1aaé"], ["١aaé", "1aéé", "11aé"]),
    (r"^\cA\x41\u0042\u{43}\uD83D\uDE00\0$", ["\x01ABC😀\0"], ["cAABC😀0"]),
    (r"^\t\n\v\f\r$", ["\t\n\v\f\r"], ["tnvfr"]),
    (r"^\/\-\_\&\<\ \é$", ["/-_&< é"], ["\\/"]),
    ("^a{,3}$", ["a{,3}"], ["", "aaa"]),
    ("^{a}]$", ["{a}]"], ["a"]),
    ("^a{2}b{1,}c{0,1}?$", ["aab", "aabbc"], ["ab", "aabcc"]),
    (r"^\p{Lu}[^\p{L}]$", ["A1"], ["aA", "AA"]),
    (r"^(?<name>a)(?i:b)$", ["aB", "ab"], ["AB"]),
    ("#~a b", ["x#~a b"], ["a b", "#~ab"]),
    ('^["/]$', ['"', "/"], ["\\"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), CASES)
def test_a_pattern_admits_what_it_matches_in_ecma_262(
    compiler: FormatCompiler, tokenizer: Tokenizer, pattern: str, good: list[str], bad: list[str]
) -> None:
    form = ResponseFormat.json_schema({"type": "string", "pattern": pattern})
    named = ResponseFormat.json_schema(
        {"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False}
    )
    for text in (*good, *bad):
        written = json.dumps(text, ensure_ascii=False)
        assert admits(compiler, tokenizer, form, written) == (text in good), text
        assert admits(compiler, tokenizer, named, f"{{{written}:1}}") == (text in good), text


REFUSED = [
    (r"^a\z$", r"no regex: \z is no anchor"),
    (r"\Aa", r"no regex: \A is no anchor"),
    (r"a\Z", r"no regex: \Z is no anchor"),
    (r"^\a$", r"no regex: no such escape: \a"),
    (r"^\x{41}$", r"no regex: no such escape: \x"),
    (r"^\pL$", r"no regex: no such escape: \p"),
    (r"^\u{110000}$", "no regex: no character has the number 110000"),
    (r"^[\ud83d]$", "no regex: it has half of a surrogate pair"),
    ("^\ud83d$", "no regex: it has half of a surrogate pair"),
    ("(?x)a b", "no regex: the flags '(?x)' are not supported"),
    ("(?s).", "no regex: the flags '(?s)' are not supported"),
    ("a++", "no regex: '+' has nothing before it to repeat"),
    ("a{2}{3}", "no regex: '{3}' has nothing before it to repeat"),
    ("*a", "no regex: a repetition has nothing before it to repeat"),
    ("[a", "no regex: a class has no end"),
    ("a\\", "no regex: an escape is not complete"),
    ("[\\", "no regex: an escape is not complete"),
    ("(a", "no regex: "),
    ("a)", "no regex: "),
    ("[b-a]", "no regex: "),
    (r"(a)\1", "no regex: "),
    ("(?=a)", "no regex: look-ahead and look-behind are not supported"),
    ("(?", "no regex: "),
]


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_what_ecma_262_has_not_is_refused_by_its_place(
    compiler: FormatCompiler, pattern: str, why: str
) -> None:
    for keyword, value in (("pattern", pattern), ("patternProperties", {pattern: {}})):
        schema: dict[str, object] = {"type": ["string", "object"], keyword: value}
        with pytest.raises(UnenforceableFormat) as caught:
            compiler.compile(ResponseFormat.json_schema({"anyOf": [schema]}))
        assert f"'{keyword}' at #/anyOf/0: {why}" in str(caught.value)


def test_patterns_for_names_that_mean_the_same_hold_together(
    compiler: FormatCompiler, tokenizer: Tokenizer
) -> None:
    named = {r"^\d$": {"minimum": 3}, "^[0-9]$": {"type": "integer", "maximum": 5}}
    form = ResponseFormat.json_schema({"type": "object", "patternProperties": named})
    assert admits(compiler, tokenizer, form, '{"1":4}')
    assert not admits(compiler, tokenizer, form, '{"1":2}')
    assert not admits(compiler, tokenizer, form, '{"1":6}')


@pytest.mark.parametrize("part", [".", r"\s", r"\S", "[^]", r"\p{L}", "[", "a{", "(", ")", "\\"])
def test_long_patterns_take_little_time(compiler: FormatCompiler, part: str) -> None:
    pattern = part * (30_000 // len(json.dumps(part)))
    started = time.thread_time()
    try:
        compiler.compile(ResponseFormat.json_schema({"type": "string", "pattern": pattern}))
    except UnenforceableFormat as error:
        assert "'pattern' at #" in str(error)
    assert time.thread_time() - started < 2
