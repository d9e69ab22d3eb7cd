"""The compiled ranking of logits, against numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.decoder import Draws
from rase_core.sampling import Chooser, GenerationConfig, NumpyRanker, Sampler
from rase_models.backends.cpu.kernel_library import kernel_library
from rase_models.backends.cpu.ranker import Ranker

Floats = NDArray[np.float32]
KINDS = ("usual", "tied", "zeros", "rising", "far apart", "forbidden")


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker(kernel_library())


def row(kind: str, size: int, random: np.random.Generator) -> Floats:
    values: Floats = random.normal(0, 4, size).astype(np.float32)
    match kind:
        case "tied":
            return np.round(values)
        case "zeros":
            return np.where(random.random(size) < 0.5, np.float32(0), np.float32(-0.0))
        case "rising":
            return np.sort(values)
        case "far apart":
            return values * np.float32(1e37)
        case "forbidden":
            values[random.random(size) < 0.5] = -np.inf
            values[0] = 1
    return values


def check_alike(ranker: Ranker, rows: Floats, k: int) -> None:
    found = ranker.top_logits(rows, k, with_totals=True)
    expected = NumpyRanker().top_logits(rows, k, with_totals=True)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_array_equal(found.infinite, expected.infinite)
    assert found.totals is not None
    assert expected.totals is not None
    np.testing.assert_array_equal(found.totals, expected.totals)


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    size=st.integers(1, 700),
    spare=st.integers(0, 20),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_it_finds_what_numpy_finds_to_the_bit(
    ranker: Ranker, kinds: list[str], size: int, spare: int, seed: int, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    wide = np.full((len(kinds), size + spare), 1e30, np.float32)  # what is past the vocabulary does not count
    for target, kind in zip(wide, kinds, strict=True):
        target[:size] = row(kind, size, random)
    check_alike(ranker, wide[:, :size], data.draw(st.integers(1, size)))


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_it_in_a_large_vocabulary(ranker: Ranker, kind: str) -> None:
    random = np.random.default_rng(5)
    rows = np.stack([row(kind, 50_257, random) for _ in range(2)])
    for k in (1, 40, 512):
        check_alike(ranker, rows, k)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_it_counts_what_is_no_finite_number(ranker: Ranker, bad: float) -> None:
    rows = np.zeros((3, 100), np.float32)
    rows[1, [3, 50, 99]] = bad
    assert ranker.top_logits(rows, 5).infinite.tolist() == [0, 3, 0]
    assert ranker.top_logits(rows, 5).totals is None


def test_it_takes_rows_that_do_not_lie_together(ranker: Ranker) -> None:
    rows = np.random.default_rng(6).normal(0, 3, (200, 4)).astype(np.float32).T
    check_alike(ranker, rows, 7)
    assert ranker.top_logits(np.empty((0, 9), np.float32), 3).tokens.shape == (0, 3)


def draws(random: np.random.Generator, rows: Floats, count: int) -> Draws:
    """Return so many ways to draw from rows, of every kind."""
    which = random.integers(0, len(rows), count)
    totals = NumpyRanker().top_logits(rows, 1, with_totals=True).totals
    assert totals is not None
    return Draws(
        rows=which,
        top_k=random.choice([0, 0, 0, 1, 7, 600, 10**6], count),
        top_p=random.choice([0.0, 0.3, 0.9, 0.95, 0.999, 1.0, 1.0], count),
        min_p=random.choice([0.0, 0.0, 1e-310, 1e-30, 0.05, 1.0], count),
        temperature=random.choice([1e-300, 0.3, 0.8, 1.0, 1.0, 1.7, 50.0, 1e6], count),
        uniform=random.choice([0.0, 0.5, 1 - 2**-53, *random.random(5)], count),
        totals=totals[which],
    )


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(KINDS), size=st.integers(1, 3000), seed=st.integers(0, 2**32 - 1))
def test_it_draws_what_numpy_draws_to_the_bit(ranker: Ranker, kind: str, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    wide = np.full((2, size + 5), 1e30, np.float32)
    wide[:, :size] = [row(kind, size, random) * random.choice([0.02, 0.3, 1]) for _ in wide]
    rows = wide[:, :size]
    asked = draws(random, rows, 8)
    np.testing.assert_array_equal(ranker.draw(rows, asked), NumpyRanker().draw(rows, asked))


@pytest.mark.parametrize("kind", KINDS)
def test_it_draws_from_a_large_vocabulary(ranker: Ranker, kind: str) -> None:
    random = np.random.default_rng(9)
    rows = np.stack([row(kind, 50_257, random) * scale for scale in (0.1, 1)]).astype(np.float32)
    asked = draws(random, rows, 60)
    np.testing.assert_array_equal(ranker.draw(rows, asked), NumpyRanker().draw(rows, asked))


def test_answers_are_the_same_with_it_and_without(ranker: Ranker) -> None:
    rows = np.random.default_rng(7).normal(0, 3, (6, 3000)).astype(np.float32)
    configs = (
        GenerationConfig(),
        GenerationConfig(temperature=0, repetition_penalty=1.3),
        GenerationConfig(top_k=0, min_p=0),
        GenerationConfig(top_k=0, top_p=1, min_p=0.02),
        GenerationConfig(xtc_probability=1.0, bad_words=((8,),)),
        GenerationConfig(top_k=0, top_p=1, min_p=0),
    )
    samplers = [Sampler(config, prompt=[1, 2, 3]) for config in configs]
    positions = list(range(3, 9))
    assert Chooser(ranker).choose(samplers, positions, rows) == Chooser(NumpyRanker()).choose(
        samplers, positions, rows
    )
