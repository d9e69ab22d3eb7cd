import collections

import numpy as np
import pytest
from rase_core.errors import InvalidGenerationConfig, InvalidLogits
from rase_core.sampling import GenerationConfig, Sampler

ROW = np.array([0.1, 2.0, 1.0, 2.0, -1.0], np.float32)
GREEDY = GenerationConfig(temperature=0)
PLAIN = GenerationConfig(temperature=1, top_k=0, top_p=1, min_p=0)


def draws(config: GenerationConfig, count: int = 4000, choice: int = 0) -> collections.Counter[int]:
    sampler = Sampler(config, choice)
    return collections.Counter(sampler.sample(ROW, position) for position in range(count))


def test_greedy_takes_the_lowest_of_equal_tokens_whatever_the_seed() -> None:
    for seed in (0, 1, 99):
        assert Sampler(GenerationConfig(temperature=0, seed=seed)).sample(ROW, seed) == 1


def test_only_greed_without_penalties_takes_the_likeliest_as_it_is() -> None:
    assert Sampler(GREEDY).takes_likeliest
    assert not Sampler(PLAIN).takes_likeliest
    assert not Sampler(GenerationConfig(temperature=0, presence_penalty=1)).takes_likeliest


def test_greedy_heeds_bias_bad_words_and_penalties() -> None:
    assert Sampler(GenerationConfig(temperature=0, logit_bias={4: 100})).sample(ROW, 0) == 4
    assert Sampler(GenerationConfig(temperature=0, bad_words=((1,),))).sample(ROW, 0) == 3
    assert Sampler(GenerationConfig(temperature=0, repetition_penalty=2.0), prompt=[1]).sample(ROW, 0) == 3
    dry = GenerationConfig(temperature=0, dry_multiplier=5.0, dry_allowed_length=1)
    assert Sampler(dry, prompt=[0, 1, 0]).sample(ROW, 0) == 3


def test_penalties_are_off_without_a_window() -> None:
    off = GenerationConfig(
        temperature=0, repetition_penalty=2, penalty_last_n=0, dry_multiplier=9, dry_penalty_last_n=0
    )
    assert Sampler(off, prompt=[0, 1, 0, 1, 0]).sample(ROW, 0) == 1


def test_accepted_tokens_count() -> None:
    sampler = Sampler(GenerationConfig(temperature=0, presence_penalty=1.5))
    assert sampler.sample(ROW, 0) == 1
    sampler.accept(1)
    assert sampler.sample(ROW, 1) == 3


def test_the_logits_are_left_alone() -> None:
    logits = ROW.copy()
    Sampler(GenerationConfig(repetition_penalty=2.0, logit_bias={0: 3}), prompt=[1]).sample(logits, 0)
    assert (logits == ROW).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("config", [GREEDY, GenerationConfig()])
def test_logits_that_are_not_finite_are_an_error(value: float, config: GenerationConfig) -> None:
    logits = ROW.copy()
    logits[[0, 3]] = value
    with pytest.raises(InvalidLogits, match="2 logits at position 17"):
        Sampler(config).sample(logits, 17)


def test_forbidding_every_token_is_an_error() -> None:
    with pytest.raises(InvalidGenerationConfig, match=r"invalid bad_words.* at least one token"):
        Sampler(GenerationConfig(bad_words=tuple((token,) for token in range(5)))).sample(ROW, 0)


@pytest.mark.parametrize("changes", [{"logit_bias": {5: 1.0}}, {"bad_words": ((1, 5),)}])
def test_a_token_outside_the_vocabulary_is_an_error(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidGenerationConfig, match="5, expected token ids of 0 to 4"):
        Sampler(GenerationConfig.from_mapping(changes)).sample(ROW, 0)


def test_the_same_seed_choice_and_position_give_the_same_token_in_any_order() -> None:
    config = GenerationConfig(temperature=2.0, seed=7)
    forwards = [Sampler(config, 3).sample(ROW, position) for position in range(50)]
    sampler = Sampler(config, 3)
    backwards = [sampler.sample(ROW, position) for position in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert forwards != [Sampler(config, 4).sample(ROW, position) for position in range(50)]


def test_the_tokens_of_a_seed_are_pinned() -> None:
    # A change here breaks "the same seed, the same text" between versions and platforms.
    logits = ((np.arange(3000) * 2654435761 % 1048576) / 131072 - 4).astype(np.float32)
    sampler = Sampler(GenerationConfig(seed=11))
    assert [sampler.sample(logits, position) for position in range(12)] == PINNED


@pytest.mark.parametrize("config", [PLAIN, GenerationConfig(temperature=1, top_k=5, top_p=1, min_p=0)])
def test_plain_draws_follow_the_softmax(config: GenerationConfig) -> None:
    counts = draws(config)
    shares = np.exp(ROW) / np.exp(ROW).sum()
    for token, share in enumerate(shares):
        assert abs(counts[token] / 4000 - share) < 0.03


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({"top_k": 1}, {1}),
        ({"top_k": 2}, {1, 3}),
        ({"top_k": 3}, {1, 2, 3}),
        ({"top_p": 0.5}, {1, 3}),
        ({"top_p": 0.0}, {1}),
        ({"min_p": 0.3}, {1, 2, 3}),
        ({"min_p": 1.0}, {1, 3}),
        ({"top_k": 4, "top_p": 0.99, "min_p": 0.3}, {1, 2, 3}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.2}, {0, 2, 3, 4}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.1}, {0, 2, 4}),
    ],
)
def test_each_rule_narrows_the_choice(changes: dict[str, object], tokens: set[int]) -> None:
    assert set(draws(GenerationConfig.from_mapping(changes, PLAIN))) == tokens


def test_xtc_applies_as_often_as_it_should() -> None:
    counts = draws(GenerationConfig(temperature=0.01, top_p=1, xtc_probability=0.3, xtc_threshold=0.1))
    assert abs(counts[2] / 4000 - 0.3) < 0.03


PINNED = [1830, 2821, 2196, 2577, 2821, 1586, 2943, 717, 1830, 351, 2806, 2577]
