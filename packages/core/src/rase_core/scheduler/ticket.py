"""A submitted request as the scheduler's thread and the caller see it."""

import threading
from collections.abc import Callable

from rase_core.answer import Generation
from rase_core.deadline import Deadline
from rase_core.errors import BackendFailure
from rase_core.scheduler.events import Ended, Event, Failed, OnEvent, Piece
from rase_core.tracebacks import caught

OnSettled = Callable[[tuple[Generation, ...]], None]


class Ticket:
    """Whether a request is still wanted, who hears of it, and how it ended.

    The scheduler's thread alone tells and ends; any thread may cancel and read. An exception of the listener
    fails the request. `on_settled` hears once of the choices that have ended, before anybody who waits.
    """

    def __init__(
        self,
        choices: int,
        on_event: OnEvent,
        submitted: float = 0.0,
        deadline: Deadline | None = None,
        on_settled: OnSettled | None = None,
    ) -> None:
        self.choices = choices
        self.submitted = submitted
        self.deadline = deadline or Deadline(asked=submitted)
        self.is_cancelled = False
        self.error: Exception | None = None
        self.settled = threading.Event()
        self.generations: dict[int, Generation] = {}
        self._on_event, self._on_settled = on_event, on_settled

    @property
    def is_settled(self) -> bool:
        """Whether every choice has ended, or the request has failed."""
        return self.settled.is_set()

    def is_late(self, now: float) -> bool:
        """Whether its time is over."""
        return self.deadline.is_past(now)

    def tell(self, piece: Piece) -> bool:
        """Report a piece; a listener that returns False cancels the request, which is returned."""
        is_welcome = self._report(piece)
        self.is_cancelled |= not is_welcome
        return is_welcome

    def end(self, choice: int, generation: Generation) -> None:
        """Report the end of a choice."""
        self.generations[choice] = generation
        self._report(Ended(choice, generation))
        if len(self.generations) == self.choices:
            self._settle()

    def fail(self, error: Exception) -> None:
        """Report a failure, unless the request is settled."""
        if not self.is_settled:
            self._report(Failed(error))
            self._settle(error)

    def _report(self, event: Event) -> bool:
        try:
            return self._on_event(event) is not False
        except Exception as error:  # noqa: BLE001 - the caller's code, whose faults are the request's own
            self._settle(caught(error))
            return False
        except BaseException as error:  # noqa: BLE001 - an exit is not the scheduler's to take
            self._settle(BackendFailure(f"the listener has left: {error!r}"))
            return False

    def _settle(self, error: Exception | None = None) -> None:
        if self.is_settled:
            return
        self.error = error
        if self._on_settled is not None:
            self._on_settled(tuple(self.generations.values()))
        self._on_event, self._on_settled = _ignore, None  # the listener may well hold the handle
        self.settled.set()


def _ignore(event: Event) -> None:
    """Hear nothing more."""
