"""The steps of a scheduler, without threads."""

from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from rase_core.answer import TokenEvent
from rase_core.decoder import BatchDecoder, Logits, LogitsRanker
from rase_core.errors import DeviceLost, EngineError, RequestTimeout
from rase_core.sampling import OPEN, Chooser, NumpyRanker, Sampler
from rase_core.scheduler.events import Piece
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.outbox import Outbox
from rase_core.scheduler.pace import PrefillPace
from rase_core.scheduler.plan import StepPlan
from rase_core.scheduler.roster import Roster
from rase_core.scheduler.sequence import Sequence
from rase_core.scheduler.snapshot import Snapshot, Totals
from rase_core.scheduler.ticket import Ticket
from rase_core.tracebacks import caught

Replace: TypeAlias = Callable[[DeviceLost], BatchDecoder]
"""Closes the decoder whose device was lost, and returns one of the same model; raises EngineError."""


class Loop:
    """Serves a line of requests step by step; everything but the line belongs to the thread that steps.

    A step lets everything that runs decode one token, and takes chunks of the prompts that are next. When a
    device is lost, everything that runs is computed again by the decoder that `replace` gives.
    """

    def __init__(
        self,
        decoder: BatchDecoder,
        line: WaitingLine,
        limits: SchedulerLimits,
        clock: Callable[[], float],
        replace: Replace | None = None,
    ) -> None:
        self._decoder, self._line, self._clock = decoder, line, clock
        self._limits, self._replace = limits, replace
        self._roster = Roster(decoder, line, limits)
        self._chooser = Chooser(_ranker(decoder))
        self._pace = PrefillPace(limits.gap_steps, limits.idle_seconds)
        self._totals = Totals()
        self._outbox = Outbox()
        self.published = self._snapshot()

    @property
    def decoder(self) -> BatchDecoder:
        """What computes."""
        return self._decoder

    @property
    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return len(self._roster) > 0

    def step(self) -> None:
        """Let every running sequence go on by one token.

        Whoever hears of it may be woken by the next one (see Outbox).

        Raises DeviceLost when the device is gone and there is nothing to go on with.
        """
        with self._outbox:
            self._step()
        if not self.is_busy:
            self._outbox.send()

    def _step(self) -> None:
        started = self._clock()
        self._sweep(started)
        plan = self._plan()
        try:
            if plan.counts:
                self._run(plan)
            else:
                self._outbox.send()
        except DeviceLost as error:
            self._move(error)
        self._totals.steps += 1
        self._totals.step_seconds += self._clock() - started
        self.published = self._snapshot()

    def fail_all(self, error: Exception) -> None:
        """End every request with an error."""
        for sequence in [*self._roster, *self._line.remove(lambda _: True)]:
            self._fail(sequence.ticket, error, keep=False)
        self._outbox.send()
        self.published = self._snapshot()

    def abandon(self, error: Exception) -> None:
        """Tell every request of an error, and leave the decoder alone."""
        for sequence in [*self._roster, *self._line.remove(lambda _: True)]:
            sequence.ticket.fail(error)
        self._outbox.send()

    def close(self) -> None:
        """Give the sequences back that were kept for later requests."""
        self._roster.pool.clear()
        self.published = self._snapshot()

    def _sweep(self, now: float) -> None:
        """End what has ended, is cancelled or is late, wherever it is."""
        waiting = self._line.remove(lambda sequence: sequence.is_over(now))
        for sequence in [*waiting, *(running for running in self._roster if running.is_over(now))]:
            if sequence.ticket.is_settled:
                self._roster.remove(sequence, keep=True)
            elif sequence.answer.reason is None and not sequence.ticket.is_cancelled:
                self._fail(
                    sequence.ticket, RequestTimeout(sequence.ticket.deadline.timeout or 0.0), keep=True
                )
            else:
                self._cancel(sequence)

    def _cancel(self, sequence: Sequence) -> None:
        for member in [sequence, *sequence.leave_siblings()]:
            member.answer.cancel()
            self._finish(member)

    def _plan(self) -> StepPlan:
        active = self._roster.active
        plan = StepPlan.of_streams(active)
        budget = self._pace.tokens(plan.streams)
        for sequence in [sequence for sequence in active if not sequence.is_decoding]:
            budget = plan.prefill(sequence, budget)
        while budget > 0 and (newcomer := self._admit()) is not None:
            budget = self._pace.tokens_at(newcomer.length, plan.streams, budget)
            budget = plan.prefill(newcomer, budget)
        self._draft(plan)
        return plan

    def _draft(self, plan: StepPlan) -> None:
        """Guess tokens where rows and memory are left for them."""
        plan.draft(self._decoder.cheap_rows - plan.rows, self._limits.draft_tokens)
        if plan.drafts and not self._decoder.fits(plan.needs()):
            plan.drafts.clear()

    def _admit(self) -> Sequence | None:
        sequence = self._roster.admit()
        if sequence is not None and sequence.started is None:
            sequence.start(self._clock())
            self._totals.count_start(sequence.generation(self._clock()))
        return sequence

    def _run(self, plan: StepPlan) -> None:
        try:
            self._totals.preemptions += self._roster.make_room(plan)
            if not plan.counts:  # all of it has to wait, for a prompt that has no part in this step
                return
            batch = plan.batch()
            self._outbox.send()
            started = self._clock()
            logits = self._decoder.forward(batch)
        except DeviceLost:
            raise
        except EngineError as error:
            failure = caught(error)
            for sequence in list(plan.counts):
                self._fail(sequence.ticket, failure, keep=False)
            return
        now = self._clock()
        self._totals.decoder_seconds += now - started
        self._pace.measured(plan.streams, plan.prefilled, now - started, plan.depth)
        self._take(plan, logits, now)

    def _move(self, error: DeviceLost) -> None:
        """Go on with another decoder, which has nothing of what was computed."""
        if self._replace is None:
            raise error
        self._outbox.send()  # to make another decoder takes long
        self._decoder = self._replace(error)
        self._roster.move(self._decoder)
        self._chooser = Chooser(_ranker(self._decoder))
        self._pace = PrefillPace(self._limits.gap_steps, self._limits.idle_seconds)
        self._totals.device_losses += 1

    def _take(self, plan: StepPlan, logits: Logits, now: float) -> None:
        completed = plan.completed()
        logits = plan.without_prompts(logits)
        self._totals.batch_sizes[len(completed)] += 1
        for sequence, count in plan.counts.items():
            self._roster.grow(sequence, count)
        places = [(s, after) for s in completed for after in range(1 + len(plan.draft_of(s)))]
        samplers = [_sampler(sequence, after) for sequence, after in places]
        positions = [sequence.answer.position + after for sequence, after in places]
        rows = zip(logits, self._chooser.choose(samplers, positions, logits), strict=True)
        for sequence in completed:
            if sequence.prefilled is None:
                sequence.end_prefill(now)
            draft = plan.draft_of(sequence).tolist()
            self._totals.drafted_tokens += len(draft)
            sequence.drafted_tokens += len(draft)
            row, token = next(rows)
            for choice in self._roster.split(sequence) if sequence.siblings else (sequence,):
                self._advance(choice, row, token)
            if draft:
                self._follow(sequence, draft, list(islice(rows, len(draft))))

    def _follow(self, sequence: Sequence, draft: list[int], rows: list[tuple[Logits, int]]) -> None:
        """Take the guesses that came true, and the token after each; give the others up."""
        for guess, (row, token) in zip(draft, rows, strict=True):
            if not sequence.goes_on_with(guess):
                self._roster.cut(sequence)
                return
            self._totals.accepted_tokens += 1
            sequence.accepted_tokens += 1
            self._roster.grow(sequence, 1)
            self._advance(sequence, row, token)

    def _advance(self, sequence: Sequence, logits: Logits, chosen: int) -> None:
        """Give a sequence its next token: the one `chosen`, or what it chooses itself where that is OPEN."""
        ticket, answer = sequence.ticket, sequence.answer
        if ticket.is_settled or ticket.is_cancelled or answer.reason is not None:
            return
        try:
            token = answer.choose(logits) if chosen == OPEN else chosen
            self._append(sequence, token, logits)
            for forced in answer.forced():
                if answer.reason is None:
                    self._append(sequence, forced)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this request alone
            self._fail(ticket, caught(error), keep=False)
            return
        if answer.reason is not None:
            self._finish(sequence)

    def _append(self, sequence: Sequence, token: int, logits: Logits | None = None) -> None:
        event = sequence.answer.add(token, logits)
        if event is None:
            return
        sequence.append(token)
        self._totals.generated_tokens += 1
        if not self._tell(sequence, event):
            sequence.answer.refuse()

    def _tell(self, sequence: Sequence, event: TokenEvent) -> bool:
        ticket = sequence.ticket
        is_welcome = ticket.tell(Piece(sequence.choice, event.token, event.text, event.logprobs))
        if ticket.error is not None:
            self._totals.failed[type(ticket.error).__name__] += 1
        return is_welcome

    def _finish(self, sequence: Sequence) -> None:
        self._roster.remove(sequence, keep=True)
        held = sequence.answer.flush()
        if held is not None and not sequence.ticket.is_settled:
            self._tell(sequence, held)
        if sequence.ticket.is_settled:  # its listener has failed
            return
        generation = sequence.generation(self._clock())
        self._totals.ended[generation.stop_reason.value] += 1
        sequence.ticket.end(sequence.choice, generation)

    def _fail(self, ticket: Ticket, error: Exception, *, keep: bool) -> None:
        if not ticket.is_settled:
            self._totals.failed[type(error).__name__] += 1
            ticket.fail(error)
        for sequence in [sequence for sequence in self._roster if sequence.ticket is ticket]:
            self._roster.remove(sequence, keep=keep)

    def _snapshot(self) -> Snapshot:
        roster = self._roster
        decoding = sum(sequence.is_decoding for sequence in roster.active)
        return Snapshot(
            waiting=len(self._line),
            prefilling=len(roster.active) - decoding,
            decoding=decoding,
            preempted=len(roster.preempted),
            cached_sequences=roster.pool.cached_sequences,
            kv_used=self._decoder.kv_used,
            kv_capacity=self._decoder.kv_capacity,
            totals=self._totals.copy(),
        )


def _sampler(sequence: Sequence, after: int) -> Sampler | None:
    """Return what can choose for a sequence without knowing of its siblings, which choose by the same row.

    Nor of the guesses that come first, `after` of them, where penalties would have to count these.
    """
    answer = sequence.answer
    if sequence.siblings and not answer.takes_likeliest:
        return None
    sampler = answer.free_sampler
    return None if after and sampler is not None and sampler.has_penalties else sampler


def _ranker(decoder: BatchDecoder) -> LogitsRanker:
    return decoder if isinstance(decoder, LogitsRanker) else NumpyRanker()
