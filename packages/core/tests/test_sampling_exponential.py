import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.sampling.exponential import exponential


@given(st.floats(-745, 0))
def test_it_is_the_exponential(x: float) -> None:
    value = exponential(np.array([x]))[0]
    expected = np.exp(np.longdouble(x))
    assert abs(value - expected) <= max(2.5e-16 * float(expected), 5e-324)


def test_its_ends_are_exact() -> None:
    ends = np.array([0.0, -0.0, -np.inf, -746.0, -1e300])
    assert exponential(ends).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_its_bits_are_pinned() -> None:
    # Whatever the platform: these values are part of "the same seed, the same tokens".
    values = exponential(np.array([-0.1, -0.5, -1.0, -3.7, -20.25, -333.3]))
    assert [value.hex() for value in values] == PINNED


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 20_000])
def test_an_element_has_the_same_bits_in_any_array(size: int) -> None:
    x = np.random.default_rng(0).uniform(-100, 0, size)
    alone = [exponential(x[i : i + 1])[0] for i in range(0, size, 97)]
    assert exponential(x)[::97].tolist() == alone


def test_it_leaves_its_argument_alone_and_never_falls() -> None:
    x = np.linspace(-50, 0, 20001)
    kept = x.copy()
    assert (np.diff(exponential(x)) >= 0).all()
    assert (x == kept).all()


PINNED = [
    "0x1.cf46d99d52b3ap-1",
    "0x1.368b2fc6f960ap-1",
    "0x1.78b56362cef38p-2",
    "0x1.9511fc6871044p-6",
    "0x1.b93de1e27ca3bp-30",
    "0x1.1bffc932ffe0dp-481",
]
