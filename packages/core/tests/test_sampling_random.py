import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rase_core.sampling.random import philox, uniforms

WORDS = st.integers(0, 2**64 - 1)


@given(WORDS, WORDS, st.tuples(WORDS, WORDS, WORDS, WORDS))
def test_philox_is_that_of_numpy(key0: int, key1: int, counter: tuple[int, int, int, int]) -> None:
    value = sum(word << (64 * i) for i, word in enumerate(counter))
    before = (value - 1) % 2**256  # numpy counts up before it draws
    words = np.array([before >> (64 * i) & (2**64 - 1) for i in range(4)], np.uint64)
    reference = np.random.Philox(counter=words, key=np.array([key0, key1], np.uint64))
    assert philox((key0, key1), counter) == tuple(int(word) for word in reference.random_raw(4))


def test_the_numbers_are_in_the_unit_interval_and_differ_by_seed_choice_and_position() -> None:
    names = [
        (seed, choice, position)
        for seed in (0, 1, 2**64 - 1)
        for choice in (0, 1)
        for position in (0, 1, 500)
    ]
    drawn = [number for name in names for number in uniforms(*name)]
    assert all(0 <= number < 1 for number in drawn)
    assert len(set(drawn)) == len(drawn)


def test_the_numbers_are_uniform() -> None:
    numbers = np.array([uniforms(0, 0, position) for position in range(4000)])
    counts = np.histogram(numbers, bins=16, range=(0, 1))[0]
    assert abs(counts / numbers.size - 1 / 16).max() < 0.01
    assert abs(np.corrcoef(numbers, rowvar=False) - np.eye(4)).max() < 0.06
