"""The caller's end of a submitted request."""

from collections.abc import Iterator
from queue import SimpleQueue

from rase_core.answer import Generation
from rase_core.scheduler.events import Ended, Event, Failed, Piece
from rase_core.scheduler.ticket import Ticket


class Handle(Iterator[Piece | Ended]):
    """A submitted request: an iterator of what happens, unless a callback hears of it.

    The iteration blocks, ends after the last choice, and raises the error of a request that failed. One
    thread may iterate, any may cancel and wait.
    """

    def __init__(self, ticket: Ticket, events: "SimpleQueue[Event] | None") -> None:
        self._ticket, self._events = ticket, events
        self._unread = 0 if events is None else ticket.choices

    @property
    def is_done(self) -> bool:
        """Whether every choice has ended, or the request has failed."""
        return self._ticket.is_settled

    def cancel(self) -> None:
        """End the request within a step; its choices end as CANCELLED with what they have."""
        self._ticket.is_cancelled = True

    def result(self, timeout: float | None = None) -> tuple[Generation, ...]:
        """Wait for the end and return every choice.

        Raises the error of a request that failed, and TimeoutError after `timeout` seconds; that leaves the
        request as it is.
        """
        if not self._ticket.settled.wait(timeout):
            raise TimeoutError(f"not finished within {timeout} seconds")
        if self._ticket.error is not None:
            raise self._ticket.error
        return tuple(generation for _, generation in sorted(self._ticket.generations.items()))

    def __next__(self) -> Piece | Ended:
        if self._events is None or not self._unread:
            raise StopIteration
        event = self._events.get()
        if isinstance(event, Failed):
            self._unread = 0
            raise event.error
        self._unread -= isinstance(event, Ended)
        return event
