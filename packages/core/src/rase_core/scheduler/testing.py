"""A scheduler without a thread, for tests."""

from rase_core.answer import Generation
from rase_core.decoder import BatchDecoder
from rase_core.scheduler.events import Ended, Event, Failed, Piece
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.loop import Loop, Replace
from rase_core.scheduler.request import GenerationRequest
from rase_core.scheduler.snapshot import Snapshot
from rase_core.scheduler.ticket import Ticket


class Submitted:
    """A request and all that was heard of it, with the time."""

    def __init__(self, request: GenerationRequest, scheduler: "StepwiseScheduler") -> None:
        self.request = request
        self.events: list[tuple[float, Event]] = []
        self.ticket = Ticket(request.n, self._hear, scheduler.now, request.deadline(scheduler.now))
        self._scheduler = scheduler

    @property
    def ended(self) -> dict[int, Generation]:
        """The choices that have ended, by number."""
        return {event.choice: event.generation for _, event in self.events if isinstance(event, Ended)}

    @property
    def error(self) -> Exception | None:
        """Why the request failed."""
        return next((event.error for _, event in self.events if isinstance(event, Failed)), None)

    @property
    def is_done(self) -> bool:
        """Whether the request is settled."""
        return self.ticket.is_settled

    def text(self, choice: int = 0) -> str:
        """Return the pieces of a choice."""
        return "".join(piece.text for piece in self._pieces(choice))

    def tokens(self, choice: int = 0) -> tuple[int, ...]:
        """Return the tokens of a choice so far."""
        return tuple(piece.token for piece in self._pieces(choice) if piece.token is not None)

    def times(self) -> list[float]:
        """Return when each token came."""
        return [time for time, event in self.events if isinstance(event, Piece) and event.token is not None]

    def cancel(self) -> None:
        """Cancel the request."""
        self.ticket.is_cancelled = True

    def _pieces(self, choice: int) -> list[Piece]:
        return [event for _, event in self.events if isinstance(event, Piece) and event.choice == choice]

    def _hear(self, event: Event) -> None:
        self.events.append((self._scheduler.now, event))


class StepwiseScheduler:
    """A scheduler that steps when it is told to, by a clock that goes when somebody advances `now`."""

    def __init__(
        self, decoder: BatchDecoder, limits: SchedulerLimits | None = None, replace: Replace | None = None
    ) -> None:
        limits = limits or SchedulerLimits()
        self.now = 0.0
        self._line = WaitingLine(limits.waiting, limits.running)
        self._loop = Loop(decoder, self._line, limits, lambda: self.now, replace)
        self._submitted = 0

    @property
    def snapshot(self) -> Snapshot:
        """What was published after the last step."""
        return self._loop.published

    def submit(self, request: GenerationRequest) -> Submitted:
        """Stand a request in line."""
        submitted = Submitted(request, self)
        self._line.put(request.sequence(submitted.ticket, self._submitted, self._loop.decoder))
        self._submitted += 1
        return submitted

    def step(self) -> bool:
        """Take a step if there is anything to do; tell whether there was."""
        if not (self._loop.is_busy or len(self._line)):
            return False
        self._loop.step()
        return True

    def run(self, most_steps: int = 10_000) -> int:
        """Step until nothing is left to do and return how often; AssertionError when that takes too long."""
        for steps in range(most_steps):
            if not self.step():
                return steps
        raise AssertionError(f"not finished after {most_steps} steps")

    def close(self) -> None:
        """Give back what is kept for later requests."""
        self._loop.close()
