"""Rules of which one is enough."""

from collections.abc import Sequence

import numpy as np
import pytest
from rase_core.constraint import Allowed
from rase_core.errors import ConstraintFailure
from rase_models.constraints.either import Either


class Tokens:
    """Wants these tokens one after the other; fails with a reason at one of them, which it lets come."""

    def __init__(self, *tokens: int, failing_at: int | None = None) -> None:
        self._left, self._failing_at = list(tokens), failing_at

    def allowed(self) -> Allowed:
        mask = np.zeros(32, np.bool_)
        mask[self._left[:1]] = True
        return mask

    def forced(self) -> Sequence[int]:
        return ()

    def accept(self, token: int) -> None:
        if token == self._failing_at:
            raise ConstraintFailure(f"too much at {token}")
        assert self._left.pop(0) == token

    @property
    def may_end(self) -> bool:
        return not self._left

    is_complete = may_end


def test_an_answer_is_held_to_the_rules_that_its_beginning_fits() -> None:
    rules = Either((Tokens(1, 2), Tokens(1, 3), Tokens(4)))
    assert set(np.flatnonzero(rules.allowed())) == {1, 4}
    rules.accept(1)
    assert set(np.flatnonzero(rules.allowed())) == {2, 3}
    rules.accept(3)
    assert rules.may_end and rules.is_complete


def test_rules_that_fail_are_forgotten_while_others_can_be_followed() -> None:
    rules = Either((Tokens(1, 2, failing_at=1), Tokens(1, 3)))
    rules.accept(1)
    assert set(np.flatnonzero(rules.allowed())) == {3} and not rules.is_complete


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_answer_that_no_rules_can_be_followed_for_has_failed_and_is_not_complete(count: int) -> None:
    rules = Either([*(Tokens(1, 2, failing_at=1) for _ in range(count)), Tokens(4)])
    with pytest.raises(ConstraintFailure, match="too much at 1"):
        rules.accept(1)


def test_a_token_that_no_rules_let_come_is_no_end_either() -> None:
    rules = Either((Tokens(1), Tokens(2)))
    with pytest.raises(ConstraintFailure, match="no rule lets token 3 come"):
        rules.accept(3)
