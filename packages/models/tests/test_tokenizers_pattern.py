"""The longest of many texts is found at each place, in a time that grows as the text that is searched."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_models.tokenizers.special_tokens import SpecialTokens
from rase_models.tokenizers.token_pattern import longest_of

some_texts = st.lists(st.text("ab[|-^]\\\n", max_size=5), max_size=12)


@given(some_texts, st.text("ab[|-^]\\\n", max_size=30))
def test_the_leftmost_and_then_the_longest_is_found(texts: list[str], text: str) -> None:
    pattern = longest_of(texts)
    found = [] if pattern is None else [(match.start(), match[0]) for match in pattern.finditer(text)]
    assert found == list(by_looking(texts, text))


def by_looking(texts: list[str], text: str) -> list[tuple[int, str]]:
    found, place = [], 0
    while place < len(text):
        here = max((t for t in texts if text.startswith(t, place)), key=len, default="")
        if here:
            found.append((place, here))
        place += len(here) or 1
    return found


@given(some_texts, st.text("ab[|-^]\\\n", max_size=30))
def test_places_are_those_of_tokens_within_others_too(texts: list[str], text: str) -> None:
    tokens = SpecialTokens({token: i for i, token in enumerate(texts)})
    starts = [i for i in range(len(text)) if any(t and text.startswith(t, i) for t in texts)]
    assert list(tokens.places(text)) == starts


@pytest.mark.parametrize("count", [1, 39, 40, 41, 42, 300, 3000])
def test_texts_may_begin_with_each_other_however_often(count: int) -> None:
    pattern = longest_of("a" * length for length in range(1, count + 1))
    assert pattern is not None
    found = [len(match[0]) for match in pattern.finditer("a" * (2 * count + 1))]
    assert found == [count, count, 1]


def test_no_texts_make_no_expression() -> None:
    assert longest_of([]) is longest_of([""]) is None


def test_text_full_of_beginnings_of_tokens_is_read_at_once() -> None:
    ids = {f"<|reserved_{i}|>": i for i in range(1000)}
    text = "<|reserved_" * 100_000
    started = time.perf_counter()
    assert list(SpecialTokens(ids).split(text)) == [text]
    assert time.perf_counter() - started < 1
