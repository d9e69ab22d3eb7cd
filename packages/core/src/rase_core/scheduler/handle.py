"""The caller's end of a submitted request."""

from collections.abc import Iterator
from queue import Empty, SimpleQueue

from rase_core.answer import Generation
from rase_core.deadline import waitable
from rase_core.scheduler.events import Ended, Event, Failed, Piece
from rase_core.scheduler.ticket import Ticket


class Handle(Iterator[Piece | Ended]):
    """A submitted request: an iterator of what happens, unless a callback hears of it.

    The iteration blocks, ends after the last choice, and raises the error of a request that failed. One
    thread may iterate, any may cancel and wait. A handle to iterate that is forgotten cancels.
    """

    def __init__(self, ticket: Ticket, events: "SimpleQueue[Event] | None") -> None:
        self._ticket, self._events = ticket, events
        self._unread = 0 if events is None else ticket.choices

    @property
    def is_done(self) -> bool:
        """Whether every choice has ended, or the request has failed."""
        return self._ticket.is_settled

    @property
    def error(self) -> Exception | None:
        """Why the request failed; None when it has not."""
        return self._ticket.error

    @property
    def is_read(self) -> bool:
        """Whether there is nothing more to iterate."""
        return not self._unread

    def cancel(self) -> None:
        """End the request within a step; its choices end as CANCELLED with what they have."""
        self._ticket.is_cancelled = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most so many seconds, and tell whether it has come."""
        return self._ticket.settled.wait(waitable(timeout))

    def result(self, timeout: float | None = None) -> tuple[Generation, ...]:
        """Wait for the end and return every choice.

        Raises the error of a request that failed, and TimeoutError after `timeout` seconds; that leaves the
        request as it is.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"not finished within {timeout} seconds")
        if self._ticket.error is not None:
            raise self._ticket.error
        return tuple(generation for _, generation in sorted(self._ticket.generations.items()))

    def get(self, timeout: float | None = None) -> Piece | Ended | None:
        """Return what happens next, None after the last choice has ended.

        Raises the error of a request that failed, and TimeoutError when nothing happens for so many seconds.
        """
        if self._events is None or not self._unread:
            return None
        try:
            event = self._events.get(timeout=waitable(timeout))
        except Empty:
            raise TimeoutError from None
        if isinstance(event, Failed):
            self._unread = 0
        elif isinstance(event, Ended):
            self._unread -= 1
        if not self._unread:
            self.wait()
        if isinstance(event, Failed):
            raise event.error
        return event

    def __next__(self) -> Piece | Ended:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    def __del__(self) -> None:
        if self._events is not None:
            self.cancel()
