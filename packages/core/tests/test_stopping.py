from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.stopping import StopMatcher

LETTERS = st.text(alphabet="ab", max_size=30)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4)


def naive_cut(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Read on character by character until the text ends with a stop string; the longest one wins."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(LETTERS, STOPS, st.lists(st.integers(0, 30)))
def test_the_cut_is_that_of_reading_character_by_character(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    matcher = StopMatcher(stops)
    out = "".join(matcher.push(piece) for piece in pieces_of(text, cuts))
    assert (out + matcher.flush(), matcher.stop) == naive_cut(text, stops)


@given(LETTERS, STOPS)
def test_only_what_may_become_a_stop_string_is_held_back(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    out = ""
    for end, character in enumerate(text, 1):
        out += matcher.push(character)
        if matcher.stop is not None:
            return
        endings = [n for n in range(1, end + 1) for stop in stops if stop.startswith(text[end - n : end])]
        assert len(text[:end]) - len(out) == max(endings, default=0)


def test_without_stop_strings_everything_passes() -> None:
    matcher = StopMatcher(())
    assert matcher.push("abc") == "abc"
    assert (matcher.flush(), matcher.stop) == ("", None)


def test_nothing_comes_out_after_a_stop_string() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("one EN") == "one "
    assert matcher.push("D two") == ""
    assert matcher.push(" three") == ""
    assert (matcher.flush(), matcher.stop) == ("", "END")


def test_a_false_alarm_is_released() -> None:
    matcher = StopMatcher(["<|end|>"])
    assert matcher.push("a <|en") == "a "
    assert matcher.push("ough") == "<|enough"


@pytest.mark.parametrize(
    ("stops", "stop"), [(["b", "abc"], "b"), (["bc", "abc"], "abc"), (["c", "abcd"], "c")]
)
def test_the_first_to_end_wins_and_then_the_longest(stops: list[str], stop: str) -> None:
    matcher = StopMatcher(stops)
    matcher.push("xabcd")
    assert matcher.stop == stop


def test_a_long_text_of_near_misses_is_linear() -> None:
    matcher = StopMatcher(["a" * 4000 + "b"])
    out = sum(len(matcher.push("aaaa")) for _ in range(50_000))
    assert out == 200_000 - 4000
