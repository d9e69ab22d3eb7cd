"""Rules of which one is enough, and rules one after the other."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from rase_core.constraint import Allowed, Constraint
from rase_core.errors import ConstraintFailure
from rase_core.tracebacks import caught


class Either:
    """A `Constraint` that holds an answer to one of several others, whichever its beginning fits.

    Args:
        rules: none of which lets everything come.
    """

    def __init__(self, rules: Sequence[Constraint]) -> None:
        self._rules = list(rules)

    def allowed(self) -> Allowed:
        """Return which tokens may come next, bool [vocab]."""
        return reduce(np.logical_or, map(_mask, self._rules))

    def forced(self) -> Sequence[int]:
        """Return tokens that must come next."""
        return self._rules[0].forced() if len(self._rules) == 1 else ()

    def accept(self, token: int) -> None:
        """Count a token as part of the answer, and forget the rules that it breaks.

        Raises ConstraintFailure when none are left that can be followed from there.
        """
        fitting = [rules for rules in self._rules if _mask(rules)[token]]
        failures = [_accepting(rules, token) for rules in fitting]
        self._rules = [rules for rules, failure in zip(fitting, failures, strict=True) if failure is None]
        if not self._rules:
            raise next(filter(None, failures), ConstraintFailure(f"no rule lets token {token} come"))

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return any(rules.may_end for rules in self._rules)

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here."""
        return all(rules.is_complete for rules in self._rules)


class InOrder:
    """A `Constraint` that holds an answer to one, and behind the end of that to another one."""

    def __init__(self, first: Constraint, then: Constraint) -> None:
        self._rules, self._then = first, then
        self._is_begun = False

    def allowed(self) -> Allowed | None:
        """Return which tokens may come next, bool [vocab]; None for all."""
        return self._rules.allowed()

    def forced(self) -> Sequence[int]:
        """Return tokens that must come next."""
        return self._rules.forced()

    def accept(self, token: int) -> None:
        """Count a token as part of the answer."""
        self._rules.accept(token)
        if not self._is_begun and self._rules.is_complete:
            self._rules, self._is_begun = self._then, True

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return self._is_begun and self._rules.may_end

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here."""
        return self._is_begun and self._rules.is_complete


def _mask(rules: Constraint) -> Allowed:
    mask = rules.allowed()
    assert mask is not None
    return mask


def _accepting(rules: Constraint, token: int) -> ConstraintFailure | None:
    """Count a token; return why the rules cannot be followed from there, None where they can."""
    try:
        rules.accept(token)
    except ConstraintFailure as error:
        return caught(error)
    return None
