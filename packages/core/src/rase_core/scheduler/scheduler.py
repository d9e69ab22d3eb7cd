"""Many requests to one model at once, from any threads."""

import threading
from collections.abc import Callable
from dataclasses import replace as replaced
from functools import partial
from itertools import count
from queue import SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Self, TypeAlias

from rase_core.deadline import waitable
from rase_core.decoder import BatchDecoder
from rase_core.errors import BackendFailure, DeviceLost, EngineError, ShuttingDown
from rase_core.scheduler.events import Event, OnEvent
from rase_core.scheduler.handle import Handle
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.line import WaitingLine
from rase_core.scheduler.loop import Loop
from rase_core.scheduler.request import GenerationRequest
from rase_core.scheduler.snapshot import Snapshot
from rase_core.scheduler.ticket import OnSettled, Ticket

ReplaceWhile: TypeAlias = Callable[[DeviceLost, Callable[[], None]], BatchDecoder]
"""As `loop.Replace`, and calls the check now and then, which raises ShuttingDown when that is not wanted."""


class Scheduler:
    """Answers requests together, in a thread that has the decoder to itself until `close`.

    Each answer is the one that `generate` gives for its request alone, whatever else is served. `on_end` is
    called by that thread when it is done with the decoder. `replace`, called there too, gives the decoder
    that goes on when the device of this one is lost, unless it is closed meanwhile; without it all requests
    fail with DeviceLost.
    """

    def __init__(
        self,
        decoder: BatchDecoder,
        limits: SchedulerLimits | None = None,
        clock: Callable[[], float] = perf_counter,
        on_end: Callable[[], None] | None = None,
        replace: ReplaceWhile | None = None,
    ) -> None:
        self._limits, self._clock = limits or SchedulerLimits(), clock
        self._on_end = on_end
        self._line = WaitingLine(self._limits.waiting, self._limits.running)
        self._abortion = _Abortion()
        wanted = None if replace is None else partial(_replace, replace, self._abortion)
        self._loop = Loop(decoder, self._line, self._limits, clock, wanted)
        self._numbers = count()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="rase-scheduler", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_broken(self) -> bool:
        """Whether the thread has ended with an error."""
        return self._failure is not None

    def submit(
        self,
        request: GenerationRequest,
        on_event: OnEvent | None = None,
        on_settled: OnSettled | None = None,
    ) -> Handle:
        """Stand a request in line.

        `on_event` hears of everything, in the scheduler's thread, which it must not keep; returning False for
        a piece cancels the request, and raising fails it. Without it the handle can be iterated. `on_settled`
        hears there of the choices that have ended once there is nothing more to come, and must not raise.

        Raises InvalidParameter, ContextOverflow for a prompt that can never fit, QueueFull,
        ShuttingDown after `close`, and BackendFailure when the scheduler is broken.
        """
        events: SimpleQueue[Event] = SimpleQueue()
        now = self._clock()
        ticket = Ticket(request.n, on_event or events.put, now, request.deadline(now), on_settled)
        request.check(self._limits.running)
        sequence = request.sequence(ticket, next(self._numbers), self._loop.decoder)
        if self._failure is not None:
            raise BackendFailure("the scheduler has stopped after an error") from self._failure
        self._line.put(sequence)
        return Handle(ticket, events if on_event is None else None)

    def snapshot(self) -> Snapshot:
        """Return what the scheduler is doing and has done."""
        return replaced(self._loop.published, waiting=len(self._line))

    def close(self, grace: float = 0.0) -> None:
        """Take no more requests, let the others finish within `grace` seconds, and end the thread.

        What is not finished then fails with ShuttingDown. The decoder stays open, with no sequence of the
        scheduler left. In the scheduler's own thread, as in `on_event`, nothing is waited for or failed.
        """
        self._line.close()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(waitable(grace))
        self._abortion.is_due = True
        self._thread.join()

    def _serve(self) -> None:
        try:
            while self._loop.is_busy or self._line.wait():
                if self._abortion.is_due:
                    self._loop.fail_all(ShuttingDown())
                else:
                    self._loop.step()
            self._loop.close()
        except ShuttingDown as error:
            self._loop.abandon(error)
        except BaseException as error:  # noqa: BLE001 - nobody may wait for a thread that is gone
            self._failure = error
            self._line.close()
            self._loop.abandon(_failure(error))
        finally:
            if self._on_end is not None:
                self._on_end()


class _Abortion:
    """Whether what is under way is to end at once."""

    def __init__(self) -> None:
        self.is_due = False

    def check(self) -> None:
        """Raise ShuttingDown when it is."""
        if self.is_due:
            raise ShuttingDown


def _replace(replace: ReplaceWhile, abortion: _Abortion, error: DeviceLost) -> BatchDecoder:
    return replace(error, abortion.check)


def _failure(error: BaseException) -> BackendFailure:
    """Return what requests are told of the error that has ended the thread."""
    if isinstance(error, BackendFailure):
        return error
    if isinstance(error, EngineError):
        return BackendFailure(f"the scheduler has stopped: {error.message}", error.advice)
    return BackendFailure(f"the scheduler has stopped: {error!r}")
