"""Threads of a server take short turns, and of nobody else's process."""

import sys

import pytest
from rase_api.turns import SWITCH_SECONDS, short_turns


def test_turns_are_short_while_it_lasts() -> None:
    before = sys.getswitchinterval()
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == before


def test_turns_are_as_before_after_a_failure() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(OSError, match="in use"), short_turns():
        raise OSError("in use")
    assert sys.getswitchinterval() == before
