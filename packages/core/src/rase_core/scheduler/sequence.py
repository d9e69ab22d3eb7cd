"""One choice of a request on its way through the scheduler."""

import numpy as np
from numpy.typing import NDArray

from rase_core.answer import MOST_FORCED, Answer, Generation
from rase_core.decoder import ModelLimits
from rase_core.scheduler.drafts import Drafts
from rase_core.scheduler.pool import Held
from rase_core.scheduler.ticket import Ticket


class Sequence:
    """The tokens of prompt and answer, and how many of them the decoder has.

    A sequence that the decoder lacks (`held` is None) waits. One with a pending token, or a few that were
    filled in, decodes; one with more is in prefill. `siblings` are the choices that fork from it once the
    prompt is computed.

    Args:
        order: by submission and choice; who is older goes first.
        tokens: the prompt, int32.
    """

    def __init__(
        self, ticket: Ticket, order: tuple[int, int], answer: Answer, tokens: NDArray[np.int32]
    ) -> None:
        self.ticket, self.order, self.answer = ticket, order, answer
        self.siblings: list[Sequence] = []
        self.held: Held | None = None
        self.cached_tokens = self.drafted_tokens = self.accepted_tokens = 0
        self.started: float | None = None
        self.prefilled: float | None = None
        self._tokens, self._total = tokens, len(tokens)
        self._drafts = Drafts()

    @property
    def choice(self) -> int:
        """Which of the request's choices it is."""
        return self.order[1]

    @property
    def tokens(self) -> NDArray[np.int32]:
        """Prompt and answer so far."""
        return self._tokens[: self._total]

    @property
    def length(self) -> int:
        """How many tokens the decoder has."""
        return self.held.length if self.held is not None else 0

    @property
    def handle(self) -> int:
        """The decoder's sequence."""
        assert self.held is not None
        return self.held.handle

    @property
    def pending(self) -> int:
        """How many tokens the decoder lacks."""
        return self._total - self.length

    @property
    def is_decoding(self) -> bool:
        """Whether it goes on in every step."""
        return self.pending == 1 or (self.prefilled is not None and self.pending <= 1 + MOST_FORCED)

    @property
    def width(self) -> int:
        """How many sequences it is going to be."""
        return 1 + len(self.siblings)

    @property
    def tells_prompt(self) -> bool:
        """Whether the logits of all tokens are wanted, not only those of the last."""
        return self.answer.tells_prompt

    def see_prompt(self, rows: NDArray[np.float32]) -> None:
        """Take the logits after the first of the pending tokens, float32 [rows, vocab]."""
        for sequence in (self, *self.siblings):  # what one has told is told for all of them
            sequence.answer.see_prompt(self.length, rows)

    def chunk(self, count: int) -> NDArray[np.int32]:
        """Return the first of the pending tokens."""
        return self._tokens[self.length : self.length + count]

    def draft(self, most: int) -> NDArray[np.int32]:
        """Guess up to so many of the tokens after the pending one, where that is all that is to be computed.

        Of an answer with rules nothing is guessed: what it may go on with is not known before it has.
        """
        is_free = self.answer.free_sampler is not None and not self.siblings
        if not is_free or self.pending != 1 or self.prefilled is None:
            return self.tokens[:0]
        return self._drafts.guess(self.tokens, min(most, self.answer.most_left - 1))

    def append(self, token: int) -> None:
        """Add a token of the answer."""
        if self._total == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.empty(self._total + 64, np.int32)))
        self._tokens[self._total] = token
        self._total += 1

    def goes_on_with(self, token: int) -> bool:
        """Whether the one pending token is this one, and it is still to be computed."""
        return self.held is not None and self.pending == 1 and int(self._tokens[self._total - 1]) == token

    def is_over(self, now: float) -> bool:
        """Whether there is nothing more to compute: ended, cancelled, failed or late."""
        ticket = self.ticket
        is_unwanted = ticket.is_cancelled or ticket.is_settled or ticket.is_late(now)
        return is_unwanted or self.answer.reason is not None

    def confine(self, limits: ModelLimits) -> None:
        """Be computed by this decoder, which may have no room for it: its answer has ended then."""
        for sequence in (self, *self.siblings):
            sequence.answer.confine(limits)

    def start(self, now: float) -> None:
        """Note when computing begins, and how much was there already."""
        for sequence in (self, *self.siblings):
            sequence.started, sequence.cached_tokens = now, self.length

    def end_prefill(self, now: float) -> None:
        """Note when the prompt is computed."""
        for sequence in (self, *self.siblings):
            sequence.prefilled = now

    def leave_siblings(self) -> "list[Sequence]":
        """Return the siblings, which are on their own from now on."""
        siblings, self.siblings = self.siblings, []
        return siblings

    def generation(self, now: float) -> Generation:
        """Return the answer so far with its times."""
        started = now if self.started is None else self.started
        prefilled = now if self.prefilled is None else self.prefilled
        return self.answer.generation(
            queued_seconds=started - self.ticket.submitted,
            prefill_seconds=prefilled - started,
            decode_seconds=now - prefilled,
            cached_tokens=self.cached_tokens,
            drafted_tokens=self.drafted_tokens,
            accepted_tokens=self.accepted_tokens,
            is_started=self.started is not None,
        )
