import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.sampling.dry import DryPenalty
from rase_core.sampling.penalties import BadWords, Bias, RepetitionPenalty

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def test_a_repeated_token_is_divided_or_multiplied_then_lowered() -> None:
    penalty = RepetitionPenalty(repetition=2.0, presence=0.5, frequency=0.25, last_n=-1)
    for token in (0, 1, 1):
        penalty.accept(token)
    logits = np.array([4.0, -4.0, 1.0], np.float32)
    penalty.apply(logits)
    assert logits.tolist() == [4 / 2 - 0.25 - 0.5, -4 * 2 - 0.5 - 0.5, 1.0]


@given(TOKENS, st.integers(1, 10))
def test_only_the_last_tokens_count(tokens: list[int], last_n: int) -> None:
    penalty = RepetitionPenalty(1.0, 0.0, 1.0, last_n)
    for token in tokens:
        penalty.accept(token)
    logits = np.zeros(4, np.float32)
    penalty.apply(logits)
    assert logits.tolist() == [-tokens[-last_n:].count(token) for token in range(4)]


def test_a_bias_is_added_and_can_forbid() -> None:
    logits = np.array([1.0, 2.0, 3.0], np.float32)
    bias = Bias({0: 1.5, 2: -np.inf})
    bias.accept(0)
    bias.apply(logits)
    assert logits.tolist() == [2.5, 2.0, -np.inf]


@pytest.mark.parametrize(
    ("tokens", "forbidden"),
    [([], {3}), ([0], {1, 3}), ([0, 1], {2, 3}), ([5, 0, 1], {2, 3}), ([1, 0], {1, 3}), ([0, 1, 2], {3})],
)
def test_a_bad_word_is_never_completed(tokens: list[int], forbidden: set[int]) -> None:
    words = BadWords(((0, 1), (0, 1, 2), (3,)))
    for token in tokens:
        words.accept(token)
    logits = np.zeros(6, np.float32)
    words.apply(logits)
    assert set(np.flatnonzero(logits == -np.inf).tolist()) == forbidden


def naive_dry(
    tokens: list[int], multiplier: float, base: float, allowed: int, last_n: int, breakers: set[int]
) -> list[float]:
    """For every earlier place, count backwards how far it equals the end."""
    window = tokens[-last_n:] if last_n > 0 else tokens
    penalties = [0.0] * 4
    for i in range(len(window) - 1):
        length = 0
        while (
            length <= i and window[i - length] == window[-1 - length] and window[-1 - length] not in breakers
        ):
            length += 1
        following = window[i + 1]
        if length >= allowed and following not in breakers:
            penalties[following] = max(penalties[following], multiplier * base ** (length - allowed))
    return penalties


@given(
    TOKENS,
    TOKENS,
    st.integers(1, 4),
    st.sampled_from([-1, 1, 2, 5, 12]),
    st.sets(st.integers(0, 3), max_size=2),
)
def test_dry_is_what_counting_at_every_place_gives(
    prompt: list[int], answer: list[int], allowed: int, last_n: int, breakers: set[int]
) -> None:
    dry = DryPenalty(0.5, 1.25, allowed, last_n, breakers)
    dry.accept_all(prompt)
    for token in answer:
        dry.accept(token)
    logits = np.zeros(4, np.float32)
    dry.apply(logits)
    expected = naive_dry(prompt + answer, 0.5, 1.25, allowed, last_n, breakers)
    np.testing.assert_allclose(-logits, expected, rtol=1e-6)


def test_dry_follows_the_published_example() -> None:
    # a b c c b c y a b c: emitting c would make a repetition of four, y one of three, b one of two.
    a, b, c, y = range(4)
    dry = DryPenalty(1.0, 2.0, 1, -1)
    dry.accept_all([a, b, c, c, b, c, y, a, b, c])
    logits = np.zeros(4, np.float32)
    dry.apply(logits)
    assert (-logits).tolist() == [0.0, 2.0 ** (1 - 1), 2.0 ** (3 - 1), 2.0 ** (2 - 1)]


def test_dry_stays_finite_and_quick_on_one_token_for_ever() -> None:
    dry = DryPenalty(1e6, 100.0, 1, -1)
    dry.accept_all([1] * 20000)
    for _ in range(300):
        dry.accept(1)
    logits = np.zeros(4, np.float32)
    dry.apply(logits)
    assert np.isfinite(logits).all() and logits[1] < -1e29


def test_dry_with_base_one_is_the_multiplier() -> None:
    dry = DryPenalty(0.75, 1.0, 2, -1)
    dry.accept_all([2] * 10)
    logits = np.zeros(4, np.float32)
    dry.apply(logits)
    assert logits.tolist() == [0, 0, -0.75, 0]
