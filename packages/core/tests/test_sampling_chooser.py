"""Choosing for many sequences at once gives what each sampler chooses alone, to the bit."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rase_core.decoder import Draws, TopLogits
from rase_core.errors import InvalidGenerationConfig, InvalidLogits
from rase_core.sampling import OPEN, Chooser, GenerationConfig, NumpyRanker, Sampler
from rase_core.sampling.candidates import total_share

Floats = NDArray[np.float32]
VOCAB = 600
SHAPES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "flat": lambda random: random.normal(0, 0.1, VOCAB).astype(np.float32),
    "usual": lambda random: random.normal(0, 2, VOCAB).astype(np.float32),
    "steep": lambda random: random.normal(0, 30, VOCAB).astype(np.float32),
    "tied": lambda random: random.integers(-2, 3, VOCAB).astype(np.float32),
    "all equal": lambda random: np.full(VOCAB, random.integers(0, 2), np.float32) * np.float32(-0.0),
    "far apart": lambda random: (random.normal(0, 1, VOCAB) * 1e37).astype(np.float32),
}
"""Kinds of rows."""
BROKEN = (math.nan, math.inf, -math.inf)

tokens = st.integers(0, VOCAB - 1)
configs = st.builds(
    GenerationConfig,
    temperature=st.sampled_from((0.0, 1e-300, 0.3, 1.0, 1.7, 50.0)),
    top_k=st.sampled_from((0, 0, 1, 5, 40, 100, VOCAB - 1, VOCAB, 10 * VOCAB)),
    top_p=st.sampled_from((0.0, 0.3, 0.95, 0.999, 1.0)),
    min_p=st.sampled_from((0.0, 1e-30, 0.05, 1.0)),
    repetition_penalty=st.sampled_from((1.0, 1.0, 1.3)),
    presence_penalty=st.sampled_from((0.0, 0.0, 1.5)),
    frequency_penalty=st.sampled_from((0.0, 0.0, -0.7)),
    penalty_last_n=st.sampled_from((0, 4, -1)),
    dry_multiplier=st.sampled_from((0.0, 0.0, 2.0)),
    xtc_probability=st.sampled_from((0.0, 0.0, 0.5, 1.0)),
    xtc_threshold=st.sampled_from((0.01, 0.2)),
    logit_bias=st.dictionaries(tokens, st.sampled_from((-math.inf, -3.0, 100.0)), max_size=3),
    bad_words=st.lists(st.lists(tokens, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    seed=st.integers(0, 2**64 - 1),
)


def alone(sampler: Sampler, row: Floats, position: int) -> int | None:
    """Return what a sampler chooses; None where it refuses to."""
    try:
        return sampler.sample(row, position)
    except (InvalidLogits, InvalidGenerationConfig):
        return None


@settings(max_examples=150, deadline=None)
@given(
    configs=st.lists(configs, min_size=1, max_size=4),
    kinds=st.lists(st.sampled_from(sorted(SHAPES)), min_size=4, max_size=4),
    prompt=st.lists(st.integers(0, 20), max_size=12),
    seed=st.integers(0, 2**32 - 1),
    broken=st.none() | st.tuples(st.integers(0, 3), tokens, st.sampled_from(BROKEN)),
)
def test_each_row_gets_the_token_that_its_sampler_chooses(
    configs: list[GenerationConfig],
    kinds: list[str],
    prompt: list[int],
    seed: int,
    broken: tuple[int, int, float] | None,
) -> None:
    random = np.random.default_rng(seed)
    rows = np.stack([SHAPES[kind](random) for kind, _ in zip(kinds, configs, strict=False)])
    if broken is not None and broken[0] < len(rows):
        rows[broken[0], broken[1]] = broken[2]
    before = rows.copy()
    samplers = [Sampler(config, choice, prompt) for choice, config in enumerate(configs)]
    positions = [len(prompt) + number for number, _ in enumerate(configs)]
    chosen = Chooser(NumpyRanker()).choose(samplers, positions, rows)
    np.testing.assert_array_equal(rows, before)
    for token, sampler, position, row in zip(chosen, samplers, positions, rows, strict=True):
        expected = alone(sampler, row, position)
        may_be_open = expected is None or sampler.config.xtc_probability > 0
        assert token == expected or (may_be_open and token == OPEN)


@pytest.mark.parametrize(
    "config",
    [
        GenerationConfig(temperature=0),
        GenerationConfig(),
        GenerationConfig(top_k=0, min_p=0),
        GenerationConfig(top_k=0, top_p=1, min_p=0.1),
        GenerationConfig(top_k=0, top_p=1, min_p=0),
        GenerationConfig(top_k=700),
        GenerationConfig(logit_bias={3: -math.inf}, repetition_penalty=1.2, dry_multiplier=1.0),
        GenerationConfig(xtc_probability=1.0, xtc_threshold=0.01),
        GenerationConfig(temperature=0, bad_words=((5,), (6, 7))),
    ],
    ids=["greedy", "default", "top_p", "min_p", "all", "large top_k", "penalties", "xtc", "bad words"],
)
def test_usual_settings_need_no_look_at_whole_rows(config: GenerationConfig) -> None:
    rows = np.random.default_rng(1).normal(0, 5, (8, 5000)).astype(np.float32)
    samplers = [Sampler(config, choice, [1, 2, 3, 1, 2]) for choice in range(8)]
    chosen = Chooser(NumpyRanker()).choose(samplers, [5] * 8, rows)
    assert OPEN not in chosen
    assert chosen == [sampler.sample(row, 5) for sampler, row in zip(samplers, rows, strict=True)]


class Counting:
    """A ranker that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, bool]] = []
        self.drawn: list[list[int]] = []

    def top_logits(self, logits: Floats, k: int, *, with_totals: bool = False) -> TopLogits:
        """Rank by numpy."""
        self.asked.append((len(logits), k, with_totals))
        return NumpyRanker().top_logits(logits, k, with_totals=with_totals)

    def draw(self, logits: Floats, draws: Draws) -> NDArray[np.int32]:
        """Draw by numpy."""
        self.drawn.append(draws.rows.tolist())
        return NumpyRanker().draw(logits, draws)


def test_a_token_is_drawn_from_more_than_the_likeliest_where_few_do_not_reach_top_p() -> None:
    ranker, random = Counting(), np.random.default_rng(2)
    steep, flat = random.normal(0, 9, 5000), random.normal(0, 2, 5000)
    samplers = [Sampler(GenerationConfig(top_k=0, seed=3)), Sampler(GenerationConfig(top_k=0, min_p=0))]
    rows = np.stack([steep, flat]).astype(np.float32)
    chosen = Chooser(ranker).choose(samplers, [0, 0], rows)
    assert chosen == [sampler.sample(row, 0) for sampler, row in zip(samplers, rows, strict=True)]
    assert (ranker.asked, ranker.drawn) == ([(2, 64, True)], [[1]])


@pytest.mark.parametrize(("asking", "ranked"), [([], []), ([5], [1]), ([1, 6], [2]), ([0, 1, 2, 5, 7], [8])])
def test_rows_are_ranked_alone_where_few_are_asked_for(asking: list[int], ranked: list[int]) -> None:
    ranker = Counting()
    rows = np.random.default_rng(4).normal(0, 9, (8, 5000)).astype(np.float32)
    config = GenerationConfig(top_k=0, repetition_penalty=1.3)
    samplers = [Sampler(config, row, [1, 2, 3]) if row in asking else None for row in range(8)]
    chosen = Chooser(ranker).choose(samplers, [3] * 8, rows)
    alone = [OPEN if one is None else one.sample(row, 3) for one, row in zip(samplers, rows, strict=True)]
    assert chosen == alone
    assert [count for count, *_ in ranker.asked] == ranked


def test_rows_without_a_sampler_are_left_open() -> None:
    rows = np.random.default_rng(3).normal(0, 3, (3, 100)).astype(np.float32)
    chosen = Chooser(NumpyRanker()).choose(
        [None, Sampler(GenerationConfig(temperature=0)), None], [0] * 3, rows
    )
    assert chosen == [OPEN, int(rows[1].argmax()), OPEN]
    assert Chooser(NumpyRanker()).choose([], [], np.empty((0, 100), np.float32)) == []


def test_logits_that_cannot_be_written_to_are_penalised_as_well() -> None:
    rows = np.random.default_rng(4).normal(0, 3, (1, 100)).astype(np.float32)
    rows.flags.writeable = False
    sampler = Sampler(GenerationConfig(temperature=0, logit_bias={7: 100}))
    assert Chooser(NumpyRanker()).choose([sampler], [0], rows) == [7]


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_the_total_is_what_all_shares_add_up_to(size: int, seed: int) -> None:
    row = np.random.default_rng(seed).normal(0, 4, size).astype(np.float32)
    wide = row.astype(np.float64)
    assert total_share(row) == pytest.approx(math.fsum(np.exp(wide - wide.max())), rel=1e-13)


class Broken:
    """A ranker that fails."""

    def top_logits(self, logits: Floats, k: int, *, with_totals: bool = False) -> TopLogits:
        raise MemoryError

    def draw(self, logits: Floats, draws: Draws) -> NDArray[np.int32]:
        raise MemoryError


def test_penalties_are_taken_back_when_the_ranker_fails() -> None:
    rows = np.stack([SHAPES["usual"](np.random.default_rng(seed)) for seed in range(2)])
    before = rows.copy()
    config = GenerationConfig(temperature=0, repetition_penalty=1.5, logit_bias={3: 5.0})
    with pytest.raises(MemoryError):
        Chooser(Broken()).choose([Sampler(config, 0, [1, 2])] * 2, [2, 2], rows)
    np.testing.assert_array_equal(rows, before)
