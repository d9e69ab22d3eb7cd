"""An answer as an iterator of texts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from rase_core.generation import Generation, StopReason
from rase_core.scheduler import Ended, Handle, Piece

IsCancelled = Callable[[], bool]

_POLL_SECONDS = 0.05


class Reading:
    """How much of an answer was read."""

    def __init__(self) -> None:
        self._tokens = self._characters = 0

    def take(self, piece: Piece) -> str:
        """Count a piece as read and return its text."""
        self._tokens += piece.token is not None
        self._characters += len(piece.text)
        return piece.text

    def part_of(self, generation: Generation) -> Generation:
        """Return what was read of an answer, as one that was cancelled."""
        return replace(
            generation,
            tokens=generation.tokens[: self._tokens],
            text=generation.text[: self._characters],
            stop_reason=StopReason.CANCELLED,
            stop=None,
        )


class TextStream(Iterator[str]):
    """The texts of one answer as they come; what fails in between is raised by the iteration.

    A context manager: leaving it early, `close`, or forgetting the stream cancels the request within a step.
    `cancelled` is asked while the iteration waits, and before every piece. What was not read when the answer
    was ended early is not part of it. For use by one thread.
    """

    def __init__(self, handle: Handle, cancelled: IsCancelled | None = None) -> None:
        self._handle, self._cancelled = handle, cancelled
        self._is_closed = False
        self._generation: Generation | None = None
        self._reading = Reading()

    @property
    def generation(self) -> Generation | None:
        """The answer once the stream has ended; None before, and when it failed."""
        return self._generation

    def close(self) -> None:
        """End the answer and wait until it has ended; `generation` is what was read."""
        if self._is_over:
            return
        self._handle.cancel()
        self._handle.wait()
        self._is_closed = True
        if self._handle.error is None:
            self._generation = self._reading.part_of(self._handle.result()[0])

    def __next__(self) -> str:
        while not self._is_over:
            if self._cancelled is not None and self._cancelled():
                self.close()
            else:
                text = self._take(self._next_event())
                if text:
                    return text
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._handle.is_read

    def _next_event(self) -> Piece | Ended | None:
        try:
            return self._handle.get(_POLL_SECONDS)
        except TimeoutError:
            return None

    def _take(self, event: Piece | Ended | None) -> str:
        if isinstance(event, Ended):
            self._generation = event.generation
        return self._reading.take(event) if isinstance(event, Piece) else ""
