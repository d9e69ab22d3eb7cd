import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.decoder import Logits
from rase_core.sampling.candidates import Candidates, at_least, draw_from_all, nucleus, top_k

# Few distinct values, so that ties are everywhere.
TIED = st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0, 2.5]), min_size=1, max_size=300)


def row(values: list[float]) -> Logits:
    return np.array(values, np.float32)


def ordered(logits: Logits) -> list[int]:
    return sorted(range(logits.size), key=lambda token: (-logits[token], token))


def softmax(values: list[float]) -> list[float]:
    weights = [math.exp(value - max(values)) for value in values]
    return [weight / math.fsum(weights) for weight in weights]


@given(TIED, st.integers(0, 310))
def test_top_k_is_the_head_of_the_sorted_vocabulary(values: list[float], k: int) -> None:
    logits = row(values)
    assert top_k(logits, k).tokens.tolist() == ordered(logits)[: k or None]


@pytest.mark.parametrize("k", [1, 40, 1000])
@pytest.mark.parametrize("vocabulary", [65, 4096, 49152])
def test_top_k_is_exact_on_large_rows(vocabulary: int, k: int) -> None:
    random = np.random.default_rng(vocabulary + k)
    for logits in (
        random.standard_normal(vocabulary),
        random.integers(0, 30, vocabulary),
        np.zeros(vocabulary),
    ):
        found = top_k(logits.astype(np.float32), k)
        assert found.tokens.tolist() == np.argsort(-logits.astype(np.float32), kind="stable")[:k].tolist()


@given(TIED, st.floats(0, 1))
def test_top_p_keeps_the_shortest_head_that_reaches_p(values: list[float], p: float) -> None:
    logits = row(values)
    kept = top_k(logits, 0).top_p(p)
    shares = softmax([float(logits[token]) for token in ordered(logits)])
    assert kept.tokens.tolist() == ordered(logits)[: len(kept.tokens)]
    assert math.fsum(shares[: len(kept.tokens)]) >= p - 1e-9
    assert len(kept.tokens) == 1 or math.fsum(shares[: len(kept.tokens) - 1]) < p + 1e-9


@pytest.mark.parametrize("p", [0.0, 0.1, 0.9, 0.999999])
def test_a_nucleus_of_all_tokens_is_that_of_the_sorted_ones(p: float) -> None:
    random = np.random.default_rng(3)
    for logits in (random.standard_normal(5000), random.standard_normal(5000) * 8, np.zeros(5000)):
        found = nucleus(logits.astype(np.float32), p)
        expected = top_k(logits.astype(np.float32), 0).top_p(p)
        assert abs(len(found.tokens) - len(expected.tokens)) <= 1  # the total is summed in another order
        shared = min(len(found.tokens), len(expected.tokens))
        assert found.tokens[:shared].tolist() == expected.tokens[:shared].tolist()


@given(TIED, st.floats(0, 1))
def test_min_p_keeps_what_is_likely_enough(values: list[float], p: float) -> None:
    logits = row(values)
    shares = softmax([float(value) for value in logits])
    tokens = set(top_k(logits, 0).min_p(p).tokens.tolist())
    assert tokens == set(at_least(logits, p).tokens.tolist())
    for token, share in enumerate(shares):
        if abs(share / max(shares) - p) > 1e-9:
            assert (token in tokens) == (share / max(shares) >= p)


@pytest.mark.parametrize(
    ("threshold", "left"),
    [
        (0.45, [0, 1, 2, 3]),  # one token is that likely: nothing better to leave it out for
        (0.25, [1, 2, 3]),
        (0.15, [2, 3]),
        (0.04, [3]),
        (0.0, [3]),
        (0.9, [0, 1, 2, 3]),
    ],
)
def test_xtc_leaves_out_all_probable_tokens_but_the_least(threshold: float, left: list[int]) -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15001, 0.05], np.float64))
    candidates = Candidates(np.arange(4), logits)
    assert candidates.exclude_top(threshold).tokens.tolist() == left


def test_draws_follow_the_softmax_at_the_temperature() -> None:
    candidates = top_k(row([1.0, 0.0, 2.0]), 0)
    for temperature in (0.5, 1.0, 3.0):
        shares = softmax([2.0 / temperature, 1.0 / temperature, 0.0])
        grid = (np.arange(20000) + 0.5) / 20000
        drawn = [candidates.draw(temperature, float(u)) for u in grid]
        for token, share in zip((2, 0, 1), shares, strict=True):
            assert abs(drawn.count(token) / len(drawn) - share) < 1e-3


@given(TIED, st.floats(0, 1, exclude_max=True), st.sampled_from([1e-300, 1e-6, 0.7, 5.0, 1e6]))
def test_a_draw_is_always_a_candidate(values: list[float], uniform: float, temperature: float) -> None:
    logits = row(values)
    assert 0 <= draw_from_all(logits, temperature, uniform) < logits.size
    assert top_k(logits, 7).draw(temperature, uniform) in top_k(logits, 7).tokens
    if temperature < 1e-5:
        assert logits[draw_from_all(logits, temperature, uniform)] == logits.max()


def test_a_token_that_is_forbidden_is_never_drawn() -> None:
    logits = row([0.0, -np.inf, 0.0])
    for uniform in (0.0, 0.49999, 0.5, 0.999999999):
        assert draw_from_all(logits, 1.0, uniform) != 1
        assert top_k(logits, 0).draw(1.0, uniform) != 1


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 0.05, 0.9, 1.0])
def test_both_shares_at_once_are_one_after_the_other(top_p: float, min_p: float) -> None:
    logits = np.random.default_rng(3).normal(size=2000).astype(np.float32) * 4
    candidates = top_k(logits, 50)
    together, apart = candidates.probable(top_p, min_p), candidates.top_p(top_p).min_p(min_p)
    np.testing.assert_array_equal(together.tokens, apart.tokens)
