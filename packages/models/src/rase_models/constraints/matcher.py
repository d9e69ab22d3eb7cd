"""The rules of one answer, followed by llguidance."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rase_core.constraint import Allowed
from rase_core.errors import ConstraintFailure

from rase_models.constraints.reasons import TOO_LARGE, UNSATISFIABLE, reason_in

if TYPE_CHECKING:
    from llguidance import LLMatcher


_FEW = 16
"""A matcher that is too much again after so few tokens will be so always."""


class FormatMatcher:
    """A `Constraint` of rase_core. `text_tokens`, bool [vocab], leaves out the tokens that end an answer.

    Where one text alone may follow, it is written in the tokens that the tokenizer makes of it. Once what the
    matcher knows is too much, `renew` makes another one.
    """

    def __init__(self, matcher: "LLMatcher", text_tokens: Allowed, renew: Callable[[], "LLMatcher"]) -> None:
        self._matcher, self._text_tokens, self._renew = matcher, text_tokens, renew
        self._tokens: list[int] = []
        self._forced: Sequence[int] = ()
        self._next_renewal = 0
        self._allowed = self._mask()

    def allowed(self) -> Allowed:
        """Return which tokens may come next, bool [vocab]."""
        return self._allowed

    def forced(self) -> Sequence[int]:
        """Return the tokens of the text that must come next."""
        return self._forced

    def accept(self, token: int) -> None:
        """Count a token as part of the answer."""
        self._tokens.append(token)
        is_taken, known = self._matcher.consume_token(token), self._forced
        if is_taken and len(known) > 1 and token == known[0]:
            self._forced = known[1:]  # to look for them again takes as long as all of them are
            self._allowed = self._only(known[1])
        else:
            self._allowed = self._mask()

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return self._matcher.is_accepting()

    @property
    def is_complete(self) -> bool:
        """Whether the answer must end here."""
        return self.may_end and not self._allowed.any()

    def _mask(self) -> Allowed:
        """Return what may come; computed at once, since the end depends on it, too."""
        try:
            return self._next()
        except ConstraintFailure as error:
            if error.reason != TOO_LARGE or len(self._tokens) < self._next_renewal:
                raise
        self._matcher, self._next_renewal = self._renew(), len(self._tokens) + _FEW
        self._matcher.consume_tokens(self._tokens)
        return self._next()

    def _next(self) -> Allowed:
        self._forced = self._matcher.compute_ff_tokens()
        if self._forced and self._text_tokens[self._forced].all():
            return self._only(self._forced[0])
        self._forced = ()
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise ConstraintFailure(reason_in(self._matcher.get_error()))
        mask = np.unpackbits(bits, count=self._text_tokens.size, bitorder="little").view(np.bool_)
        mask &= self._text_tokens
        if not (mask.any() or self.may_end):
            raise ConstraintFailure(UNSATISFIABLE)
        return mask

    def _only(self, token: int) -> Allowed:
        mask = np.zeros(self._text_tokens.size, np.bool_)
        mask[token] = True
        return mask
