"""Automata cut texts as the library's expressions do."""

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_models.tokenizers.automaton import Automata, automata
from rase_models.tokenizers.merging_library import one_after_the_other, splits_of
from rase_models.tokenizers.pre_tokenizers import known_pre_tokenizers, pre_tokenizer

WAYS = sorted({pre_tokenizer(name): name for name in known_pre_tokenizers()}.values())
LEFT_TO_THE_LIBRARY = {"afmoe", "deepseek-llm", "jais-2", "superbpe", "tiny_aya"}
NAMES = [name for name in WAYS if pre_tokenizer(name).splits and name not in LEFT_TO_THE_LIBRARY]
CHARACTERS = (
    "abAZ'sStTrReEvVmMlLdD's\u017f\u212a  \t\n\r\n\x0b\x85\xa0\u2028\u3000 0123456789½²٣"
    "éÉßſǅʰªºΑΣς世界々〇ㄅかカー한글ᄀ\u0301\u0302\u0903\u20dd!?.,;:-_/\\|()[]{}<>#$%&*+=~^`@…。，、「」–—“”‘’€£©™🦙👩\u200d👩"
    "\ufeff\u200b\u00ad\ue000\U000e0041\U000f0000\uffff\U0001f600\u0378\U00030000ஃहिन्दी"
)
TEXTS = st.text(st.sampled_from(CHARACTERS) | st.characters(codec="utf-8"), max_size=40)


@cache
def _automata(name: str) -> Automata:
    found = automata(pre_tokenizer(name).splits)
    assert found is not None, name
    return found


def _match(found: Automata, number: int, text: str) -> int:
    """Return the length of the match at the beginning of a text."""
    table, state, length = found.transitions[number].ravel(), found.start, 0
    for at, character in enumerate(text):
        entry = int(table[state + int(found.classes[ord(character)])])
        length, state = at if entry & 1 else length, entry >> 1
        if state == 0:
            return length
    return len(text) if table[state + found.start - 1] & 1 else length


def _cut(found: Automata, number: int, text: str) -> list[str]:
    parts, first, at = list[str](), 0, 0
    while at < len(text):
        length = _match(found, number, text[at:])
        if length:
            parts += [text[first:at], text[at : at + length]]
            first = at + length
        at += length or 1
    return [part for part in (*parts, text[first:]) if part]


def _parts(name: str, text: str) -> list[str]:
    found, parts = _automata(name), [text]
    for number in range(len(found.transitions)):
        parts = [part for whole in parts for part in _cut(found, number, whole)]
    return parts


def _expected(name: str, text: str) -> list[str]:
    step = one_after_the_other(splits_of(pre_tokenizer(name)))
    return [part for part, _ in step.pre_tokenize_str(text)] if text else []


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(text=TEXTS)
def test_texts_are_cut_as_the_library_cuts_them(name: str, text: str) -> None:
    assert _parts(name, text) == _expected(name, text)


@pytest.mark.parametrize("name", NAMES)
def test_every_character_is_cut_as_the_library_cuts_it(name: str) -> None:
    chance, codes = random.Random(name), [*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]
    sample = chance.sample(codes, 3000)
    text = "".join(chance.choice(["", " ", "a", "1", "\n", "!"]) + chr(code) for code in sample)
    assert _parts(name, text) == _expected(name, text)


def test_only_those_that_look_far_ahead_are_left_to_the_library() -> None:
    left = {name for name in WAYS if automata(pre_tokenizer(name).splits) is None}
    assert left == LEFT_TO_THE_LIBRARY | {name for name in WAYS if not pre_tokenizer(name).splits}


@pytest.mark.parametrize(
    "expression",
    [
        "(a",
        "a)",
        "[a",
        "a*?",
        "^a",
        "a$",
        "(?<=a)b",
        "(?=a)",
        "(?!ab)",
        r"\d",
        r"\b",
        r"a\1",
        "(a)",
        ".",
        "a*",
        "",
    ],
)
def test_what_an_automaton_cannot_do_is_refused(expression: str) -> None:
    assert automata((expression,)) is None


def test_huge_automata_are_refused() -> None:
    assert automata(("(?:a{9}b?){50}",)) is None
    assert automata(("[ab]*a[ab][ab][ab][ab][ab][ab][ab][ab][ab]",)) is None
