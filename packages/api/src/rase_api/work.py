"""The bridge between the event loop and the engine: calls in a thread that end when their client goes."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from rase_core.errors import Cancelled, RequestTimeout
from rase_core.generation import Generation, StopReason
from starlette.requests import Request

from rase_api.record import Record, record_of
from rase_api.serving import IsCancelled, OnText


@dataclass(frozen=True, slots=True)
class Choice:
    """One generation to run: which choice of the answer it is, and the engine call that makes it.

    `prompt_tokens` is for APIs that tell them before the first text.
    """

    index: int
    run: Callable[[OnText, IsCancelled], Generation]
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The beginning of a choice whose prompt was counted."""

    index: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text of a choice."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a choice."""

    index: int
    generation: Generation


@dataclass(frozen=True, slots=True)
class Failed:
    """What ended the work before its time."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has happened for a while."""


Event = Started | Text | Finished | Failed | Quiet


class Work:
    """The choices of one request, run one after another in a worker thread.

    The thread is told to stop, at the next token, as soon as the client has gone, the time is over, the work
    is closed, or the task that watches the client ends for any other reason, such as the end of the server.
    """

    def __init__(
        self, request: Request, pool: Executor, choices: Iterable[Choice], timeout: float | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._record: Record = record_of(request.scope)
        self._stop = threading.Event()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._is_late = False
        self._timeout = timeout
        self._timer = None if timeout is None else self._loop.call_later(timeout, self._expire)
        self._future = pool.submit(self._run, choices)
        self._future.add_done_callback(self._wake)
        self._watch = asyncio.create_task(self._until_gone(request))

    async def next(self, patience: float | None = None) -> Event | None:
        """Wait for what happens next: None is the end, and so is Failed.

        After `patience` seconds without anything that is Quiet.
        """
        try:
            async with asyncio.timeout(patience):
                event = await self._events.get()
        except TimeoutError:
            return Quiet()
        event = event or self._end()
        self._note(event)
        return event

    def close(self) -> None:
        """Stop the engine at its next token, if it is not done."""
        self._stop.set()
        self._future.cancel()
        self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> Failed | None:
        if self._is_late and self._timeout is not None:
            return Failed(RequestTimeout(self._timeout))
        if self._stop.is_set():
            self._record.is_abandoned = True
            return Failed(Cancelled("the client has gone"))
        error = self._future.exception()
        return None if error is None else Failed(error)

    def _note(self, event: Event | None) -> None:
        match event:
            case Text():
                self._record.see_text()
            case Finished(_, generation):
                self._record.count(generation)
            case Failed(error):
                self._record.failure = error

    def _run(self, choices: Iterable[Choice]) -> None:
        for choice in choices:
            opening = _opening(choice)
            generation = choice.run(self._teller(choice.index, opening), self._stop.is_set)
            if generation.stop_reason is StopReason.CANCELLED:
                raise Cancelled("the generation was cancelled")
            self._put_all(*opening, Finished(choice.index, generation))

    def _teller(self, index: int, opening: Iterator[Event]) -> OnText:
        def tell(text: str) -> bool:
            if text:
                self._put_all(*opening, Text(index, text))
            return not self._stop.is_set()

        return tell

    def _put_all(self, *events: Event) -> None:
        for event in events:
            self._put(event)

    def _put(self, event: Event | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the loop has closed: nobody listens any more
            self._stop.set()

    def _wake(self, _: Future[None]) -> None:
        self._put(None)

    def _expire(self) -> None:
        self._is_late = True
        self._stop.set()
        self._events.put_nowait(None)

    async def _until_gone(self, request: Request) -> None:
        try:
            while (await request.receive())["type"] != "http.disconnect":
                pass
        finally:
            self._stop.set()
            self._events.put_nowait(None)


def _opening(choice: Choice) -> Iterator[Event]:
    """Yield, once, that a choice begins: not before its first text, until when its prompt may be refused."""
    if choice.prompt_tokens is not None:
        yield Started(choice.index, choice.prompt_tokens)
