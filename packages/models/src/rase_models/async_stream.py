"""A request to a scheduler as asyncio sees it: events and texts without a thread to wait for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self

from rase_core.generation import Generation
from rase_core.scheduler import Ended, Event, Failed, Handle, OnEvent, Piece

from rase_models.courier import running_courier
from rase_models.text_stream import Reading

Ask = Callable[[OnEvent], Awaitable[Handle]]


class AsyncHandle(AsyncIterator[Piece | Ended]):
    """What happens to a request of so many choices, from its first await on; for one task.

    `ask` submits it. The end of the task that waits here cancels the request within a step, and so does
    forgetting the handle. The iteration raises the error of a request that failed.
    """

    def __init__(self, ask: Ask, choices: int = 1) -> None:
        self._ask, self._unread = ask, max(choices, 1)
        self._inbox: _Inbox | None = None
        self._handle: Handle | None = None

    def cancel(self) -> None:
        """End the request within a step; its choices end as CANCELLED with what they have."""
        if self._inbox is None:
            self._unread = 0
        else:
            self._inbox.is_closed = True
        if self._handle is not None:
            self._handle.cancel()

    async def aclose(self) -> None:
        """End the request and wait until it has ended; what is not read is dropped."""
        self.cancel()
        while self._unread:
            await self._next()

    async def get(self) -> Event | None:
        """Return what happens next, as an event also when it is the failure; None after the end."""
        if not self._unread:
            return None
        try:
            if self._inbox is None:
                await self._start()
            return await self._next()
        except BaseException:
            self.cancel()
            raise

    async def __anext__(self) -> Piece | Ended:
        event = await self.get()
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, Failed):
            raise event.error
        return event

    async def _start(self) -> None:
        inbox = self._inbox = _Inbox()
        try:
            self._handle = await self._ask(inbox.put)
        except BaseException:
            self._unread = 0
            raise
        if inbox.is_closed:
            self._handle.cancel()

    async def _next(self) -> Event:
        assert self._inbox is not None
        event = await self._inbox.events.get()
        if isinstance(event, Failed):
            self._unread = 0
        elif isinstance(event, Ended):
            self._unread -= 1
        return event

    def __del__(self) -> None:
        self.cancel()


class AsyncTextStream(AsyncIterator[str]):
    """The texts of one answer as they come; what fails in between is raised by the iteration.

    A context manager: leaving it early, `aclose`, forgetting the stream, or the end of the task that waits
    for it, cancels the request within a step. What was not read then is not part of the answer.
    """

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle, self._reading = handle, Reading()
        self._generation: Generation | None = None
        self._is_over = False

    @property
    def generation(self) -> Generation | None:
        """The answer once the stream has ended; None before, and when it failed."""
        return self._generation

    async def aclose(self) -> None:
        """End the answer and wait until it has ended; `generation` is what was read."""
        self._handle.cancel()
        while not self._is_over:
            event = await self._event()
            if isinstance(event, Ended):
                self._generation = self._reading.part_of(event.generation)

    async def __anext__(self) -> str:
        while not self._is_over:
            match await self._event():
                case Piece() as piece:
                    if text := self._reading.take(piece):
                        return text
                case Ended(_, generation):
                    self._generation = generation
                case Failed(error):
                    raise error
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _event(self) -> Event | None:
        event = await self._handle.get()
        self._is_over = not isinstance(event, Piece)
        return event


class _Inbox:
    """The events of a request on their way from the scheduler's thread to a loop."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.is_closed = False
        self._courier = running_courier()

    def put(self, event: Event) -> bool:
        """Pass an event on; False when nobody waits for the rest."""
        try:
            self._courier.post(partial(self.events.put_nowait, event))
        except RuntimeError:  # the loop is closed
            return False
        return not self.is_closed
