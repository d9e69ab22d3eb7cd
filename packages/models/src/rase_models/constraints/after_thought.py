"""Rules that begin where a model has ended its thought."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from rase_core.constraint import Allowed, Constraint


class AfterThought:
    """A `Constraint` that lets a model think first, and then holds it to another one.

    Args:
        rules: of what is said.
        end: the tokens that end a thought.
        begin: the token that begins one; None where nothing says so and the thought has begun.
        text_tokens: bool [vocab], which tokens a thought may have.
    """

    def __init__(
        self, rules: Constraint, end: Sequence[int], begin: int | None, text_tokens: Allowed
    ) -> None:
        self._rules, self._end, self._begin = rules, tuple(end), begin
        self._thinkable = text_tokens
        self._recent: deque[int] = deque(maxlen=len(self._end))
        self._is_thinking = begin is None
        self._may_begin = begin is not None

    def allowed(self) -> Allowed | None:
        """Return which tokens may come next, bool [vocab]; None for all."""
        if self._is_thinking:
            return self._thinkable
        allowed = self._rules.allowed()
        if not self._may_begin or self._begin is None or allowed is None:
            return allowed
        allowed = np.array(allowed)
        allowed[self._begin] = True
        return allowed

    def forced(self) -> Sequence[int]:
        """Return tokens that must come next, behind the thought."""
        return () if self._is_thinking or self._may_begin else self._rules.forced()

    def accept(self, token: int) -> None:
        """Count a token as part of the answer."""
        if self._is_thinking:
            self._recent.append(token)
            self._is_thinking = tuple(self._recent) != self._end
        elif self._may_begin and token == self._begin:
            self._is_thinking = True
        else:
            self._rules.accept(token)
        self._may_begin = False

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return not self._is_thinking and self._rules.may_end

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here."""
        return not self._is_thinking and not self._may_begin and self._rules.is_complete
