"""Wake-ups of those who hear of a step, put off until the thread that steps computes."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

Call = Callable[[], object]


class Outbox:
    """Keeps calls that are put off while it is entered, each once, until `send`.

    Whoever is woken in the middle of a step wants the interpreter, which the thread that steps then waits for
    before it can compute; while it computes, the interpreter is free.
    """

    def __init__(self) -> None:
        self._calls: dict[Call, None] = {}

    def __enter__(self) -> Self:
        _PRESENT.outbox = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _PRESENT.outbox = None

    def keep(self, call: Call) -> None:
        """Keep a call, unless it is kept already."""
        self._calls[call] = None

    def send(self) -> None:
        """Make the calls, which must not raise."""
        calls, self._calls = self._calls, {}
        for call in calls:
            call()


class _Present(threading.local):
    """The outbox that a thread has entered."""

    outbox: Outbox | None = None


_PRESENT = _Present()


def put_off(call: Call) -> None:
    """Make a call when all that the present step tells is told; at once in a thread that does not step.

    In a step it is made once, however often it is put off, and must not raise.
    """
    outbox = _PRESENT.outbox
    if outbox is None:
        call()
    else:
        outbox.keep(call)
