"""When the time of something asked is over."""

from threading import TIMEOUT_MAX
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rase_core.deadline import Deadline, waitable
from rase_core.errors import InvalidParameter, RequestTimeout

SHORT = st.floats(min_value=0, max_value=4, exclude_min=True)
LONG = st.floats(min_value=600) | st.integers(min_value=600)


@given(st.none() | SHORT | LONG)
def test_what_is_left_can_be_waited_for_until_the_time_is_over(timeout: float | None) -> None:
    asked = perf_counter()
    deadline = Deadline(timeout, asked - 5)
    assert deadline.is_past(asked) == (timeout is not None and timeout < 5)
    if timeout is not None and timeout < 5:
        with pytest.raises(RequestTimeout):
            deadline.left()
    else:
        assert 0 <= deadline.left() <= TIMEOUT_MAX


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_no_time_at_all_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidParameter, match="invalid timeout"):
        Deadline(timeout)


def test_a_thread_waits_as_long_as_the_system_lets_it() -> None:
    assert [waitable(seconds) for seconds in (None, float("inf"), 10**400)] == [TIMEOUT_MAX] * 3
    assert [waitable(seconds) for seconds in (-1, 0, 2.5)] == [0, 0, 2.5]
