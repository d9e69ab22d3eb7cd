"""Who is served: let in while there is room, oldest first; sent back to wait when memory is short."""

from bisect import insort
from collections.abc import Iterator
from operator import attrgetter

from rase_core.decoder import BatchDecoder
from rase_core.errors import BackendFailure
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.plan import StepPlan
from rase_core.scheduler.pool import NO_MATCH, Held, SequencePool
from rase_core.scheduler.sequence import Sequence

_CONTEXTS_CACHED = 4
_order = attrgetter("order")


class Roster:
    """The sequences that run (`active`) and those that had to stop for want of memory (`preempted`)."""

    def __init__(self, decoder: BatchDecoder, line: WaitingLine, limits: SchedulerLimits) -> None:
        self._decoder, self._line, self._limits = decoder, line, limits
        self.pool = SequencePool(decoder, _most_cached(decoder, limits))
        self.active: list[Sequence] = []
        self.preempted: list[Sequence] = []  # the oldest first; all older than those in line
        self._without_room: Sequence | None = None  # for as long as it cannot have become more

    def __len__(self) -> int:
        return len(self.active) + len(self.preempted)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self.active
        yield from self.preempted

    def admit(self) -> Sequence | None:
        """Let the next in, with what is there of its prompt; None when nobody is next or there is no room.

        Who shares more of a prompt that is being computed than is there yet waits for it. Who found no room
        looks again when somebody has left, has filled a block (who shared a part of it had to get a copy), or
        has come to the end of a prompt.
        """
        sequence = self._next()
        if sequence is None or sequence is self._without_room:
            return None
        sequence.confine(self._decoder)  # it may have been asked of one with a longer context
        if not self._may_start(sequence):
            return None
        match = NO_MATCH if sequence.tells_prompt else self.pool.match(sequence.tokens)
        if match.promised > match.length:
            return None
        sequence.held = self.pool.open(match)
        if self.active and not self.pool.make_room(self._needs_with(sequence)):
            # What it begins with stays, whoever had more of it: it would have to be computed again.
            self.pool.promise(sequence.held, sequence.tokens[: sequence.length])
            self._leave_decoder(sequence, keep=True)
            self._without_room = sequence
            return None
        self.pool.promise(sequence.held, sequence.tokens)
        self._take(sequence)
        self.active.append(sequence)
        self._count_places()
        return sequence

    def grow(self, sequence: Sequence, count: int) -> None:
        """Count so many more tokens of a sequence as computed."""
        self.pool.grow(_held(sequence), count, sequence.tokens)
        if self._without_room is not None and self._may_leave_room(sequence, count):
            self._without_room = None

    def cut(self, sequence: Sequence) -> None:
        """Give up what was computed of a sequence that still runs and is not counted: rejected guesses."""
        if sequence.held is not None:
            self.pool.cut(sequence.held)

    def split(self, sequence: Sequence) -> list[Sequence]:
        """Let the siblings of a computed prompt in; return all choices."""
        siblings = sequence.leave_siblings()
        self.active += siblings  # first: whatever forking raises, they are to be heard of
        for sibling in siblings:
            sibling.held = self.pool.fork(_held(sequence), sibling.tokens)
        self._count_places()
        return [sequence, *siblings]

    def remove(self, sequence: Sequence, *, keep: bool) -> None:
        """Let a sequence go, and keep what it has computed for later ones or not."""
        if sequence.held is not None:
            self.active.remove(sequence)
            self._leave_decoder(sequence, keep=keep)
        elif sequence in self.preempted:
            self.preempted.remove(sequence)
        self._count_places()

    def make_room(self, plan: StepPlan) -> int:
        """Send the youngest back to wait until the plan fits; return how many.

        Raises BackendFailure when the last one does not fit, which the decoder's capacity should rule out.
        """
        preempted = 0
        while not self.pool.make_room(plan.needs()):
            if len(self.active) == 1:
                raise BackendFailure("the memory for keys and values does not suffice for one sequence")
            youngest = max(self.active, key=_order)
            plan.remove(youngest)
            self._preempt(youngest)
            preempted += 1
        return preempted

    def move(self, decoder: BatchDecoder) -> None:
        """Let all that run wait for another decoder, which computes them again; the first one is gone."""
        for sequence in self.active:
            sequence.held = None
            insort(self.preempted, sequence, key=_order)
        self.active = []
        self._decoder, self._without_room = decoder, None
        self.pool = SequencePool(decoder, _most_cached(decoder, self._limits))

    def _next(self) -> Sequence | None:
        return self.preempted[0] if self.preempted else self._line.first()

    def _may_start(self, sequence: Sequence) -> bool:
        has_ended = sequence.answer.reason is not None
        running = sum(other.width for other in self.active)
        return not has_ended and running + sequence.width <= self._limits.running

    def _may_leave_room(self, sequence: Sequence, grown: int) -> bool:
        has_filled_block = sequence.length % self._decoder.block_tokens < grown
        return has_filled_block or (sequence.prefilled is None and not sequence.pending)

    def _take(self, sequence: Sequence) -> None:
        if self.preempted:
            self.preempted.pop(0)
        else:
            self._line.take()

    def _count_places(self) -> None:
        self._line.free = max(self._limits.running - len(self), 0)

    def _preempt(self, sequence: Sequence) -> None:
        self.active.remove(sequence)
        self._leave_decoder(sequence, keep=False)
        insort(self.preempted, sequence, key=_order)

    def _leave_decoder(self, sequence: Sequence, *, keep: bool) -> None:
        self.pool.close(_held(sequence), keep=keep)
        sequence.held, self._without_room = None, None

    def _needs_with(self, newcomer: Sequence) -> dict[int, int]:
        """Return the tokens that let all have what is pending and go on for a block."""
        block = self._decoder.block_tokens
        return {s.handle: s.pending - 1 + block for s in (*self.active, newcomer)}


def _held(sequence: Sequence) -> Held:
    assert sequence.held is not None
    return sequence.held


def _most_cached(decoder: BatchDecoder, limits: SchedulerLimits) -> int | None:
    if limits.cached_tokens is None and decoder.kv_capacity is None:
        return _CONTEXTS_CACHED * decoder.context_length
    return limits.cached_tokens
