"""The bridge between the event loop and the engine: answers that end when their client goes."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from rase_core.errors import Cancelled, EngineError, RequestTimeout
from rase_models.courier import running_courier
from starlette.requests import Request

from rase_api.asking import (
    AllAsked,
    Answered,
    Argued,
    Ask,
    Asked,
    Asking,
    Called,
    Failed,
    Finished,
    Prepare,
    Started,
    Step,
    Text,
    Thought,
)
from rase_api.record import Record, record_of


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has happened for a while."""


Event = Started | Text | Thought | Called | Argued | Finished | Failed | Quiet


class Work:
    """The answers to one request, asked for in a worker thread and told as events.

    The engine is told to stop, within a step, as soon as the client has gone, the time is over, the work is
    closed, or the task that watches the client ends for any other reason, such as the end of the server. See
    Asking for `prepare`.

    Raises what submitting to `pool` raises.
    """

    def __init__(
        self,
        request: Request,
        pool: Executor,
        asks: Iterable[Ask],
        timeout: float | None = None,
        prepare: Prepare = lambda check: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._record: Record = record_of(request.scope)
        self._steps: asyncio.Queue[Step | Quiet | None] = asyncio.Queue()
        self._courier = running_courier()
        self._asking = Asking(asks, self._put, prepare)
        self._ending: EngineError | None = None
        self._open = 0
        self._is_all_asked = self._is_late = False
        self._timeout = timeout
        self._future = pool.submit(self._asking.run)
        self._timer = None if timeout is None else self._loop.call_later(timeout, self._expire)
        self._silence: asyncio.TimerHandle | None = None
        self._asked = 0.0
        self._watch: asyncio.Task[None] | None = asyncio.create_task(self._until_gone(request))

    @property
    def is_over(self) -> bool:
        """Whether the work is closed, or nobody waits for it any more."""
        return self._asking.is_stopped

    async def next(self, patience: float | None = None) -> Event | None:
        """Wait for what happens next: None is the end, and so is Failed.

        After `patience` seconds without anything that is Quiet.
        """
        self._asked = self._loop.time()
        if patience is not None and self._silence is None:
            self._silence = self._loop.call_later(patience, self._listen, patience)
        event = await self._event()
        self._note(event)
        return event

    def end(self, error: EngineError) -> None:
        """Let the work fail with this error, if it is not done, and stop the engine within a step."""
        self._ending = error
        self._asking.stop()
        self._steps.put_nowait(None)

    def close(self) -> None:
        """Stop the engine within a step, if it is not done."""
        self._asking.stop()
        self._future.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None  # which would keep the work, and all of the request, by its frame
        for timer in (self._timer, self._silence):
            if timer is not None:
                timer.cancel()

    async def _event(self) -> Event | None:
        while self._open or not self._is_all_asked:
            step = await self._steps.get()
            if self._asking.is_stopped:
                return self._stopped()
            match step:
                case Asked(choices):
                    self._open += choices
                case AllAsked():
                    self._is_all_asked = True
                case Answered():
                    self._asking.make_room()
                case Finished():
                    self._open -= 1
                    return step
                case Started() | Text() | Thought() | Called() | Argued() | Failed() | Quiet():
                    return step
        return None

    def _stopped(self) -> Failed:
        if self._ending is not None:
            return Failed(self._ending)
        if self._is_late and self._timeout is not None:
            return Failed(RequestTimeout(self._timeout))
        self._record.is_abandoned = True
        return Failed(Cancelled("the client has gone"))

    def _note(self, event: Event | None) -> None:
        match event:
            case Text(index) | Thought(index) | Called(index) | Argued(index):
                self._record.see_text(index)
            case Finished(_, generation, is_first=is_first):
                self._record.count(generation, with_prompt=is_first)
            case Failed(error):
                self._record.fail(error)

    def _put(self, step: Step | None) -> None:
        try:
            self._courier.post(partial(self._steps.put_nowait, step))
        except RuntimeError:  # the loop has closed: nobody listens any more
            self._asking.stop()

    def _listen(self, patience: float) -> None:
        """Tell of a silence, or listen on: one timer for many events, which are not to wait for their own."""
        left = self._asked + patience - self._loop.time()
        if left > 0:
            self._silence = self._loop.call_later(left, self._listen, patience)
        else:
            self._silence = None
            self._steps.put_nowait(Quiet())

    def _expire(self) -> None:
        self._is_late = True
        self._asking.stop()
        self._steps.put_nowait(None)

    async def _until_gone(self, request: Request) -> None:
        try:
            while (await request.receive())["type"] != "http.disconnect":
                pass
        finally:
            self._asking.stop()
            self._steps.put_nowait(None)
