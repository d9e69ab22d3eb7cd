"""The engine for asyncio."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack

from rase_core.deadline import Deadline
from rase_core.errors import Cancelled, RequestTimeout
from rase_core.generation import Generation
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Ended, Handle, OnEvent

from rase_models.async_stream import AsyncHandle, AsyncTextStream
from rase_models.chat.options import ChatOptions, check_options
from rase_models.chat.reply import Reply
from rase_models.engine import Engine
from rase_models.model_host import check_grace
from rase_models.request import Completion, Conversation, Messages, Prompt, Question, TermOptions, Terms
from rase_models.session import Session
from rase_models.typed_answers import AsyncTypedStream, format_of
from rase_models.typed_answers import T as Typed
from rase_models.workers import Workers

T = TypeVar("T")

_THREADS = 32


class AsyncEngine:
    """What an Engine answers, awaited. What is asked is cancelled with the task that awaits it.

    The arguments are those of Engine's methods of the same names, and so is what is raised. Prompts are
    prepared in threads of its own, so many at a time; waiting for a model or an answer needs none. The rest
    of `engine` is for whoever has time to wait, or `asyncio.to_thread`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._workers = _new_workers()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def load(self, model_id: str) -> Session:
        """Bring a model into memory."""
        workers = self._workers
        load = partial(self.engine.load, model_id, check=workers.check_open)
        return await _once_loaded(workers, self.engine, model_id, Deadline(), load)

    async def unload(self, model_id: str | None = None) -> None:
        """Let go of a model's memory, or all models'."""
        await self._workers.call(partial(self.engine.unload, model_id))

    async def aclose(self, grace: float | None = None) -> None:
        """Let go of all memory; see Engine.close. What has not been asked yet fails with ShuttingDown."""
        check_grace(grace)
        workers, self._workers = self._workers, _new_workers()
        workers.close()
        closer = Workers(1, "rase-close")
        try:
            await closer.call(partial(self.engine.close, grace))
        finally:
            closer.close()

    def submit(self, model_id: str, question: Question) -> AsyncHandle:
        """Return what happens to a question, which is asked when it is first awaited."""
        return AsyncHandle(partial(_ask, self._workers, self.engine, model_id, question), question.terms.n)

    async def generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        **terms: Unpack[TermOptions],
    ) -> Generation:
        """Continue a text or tokens."""
        return await _whole(self.stream_generate(model_id, prompt, config, **terms))

    def stream_generate(
        self,
        model_id: str,
        prompt: Prompt,
        config: GenerationConfig | None = None,
        **terms: Unpack[TermOptions],
    ) -> AsyncTextStream:
        """Continue a text or tokens, as an asynchronous iterator of the pieces."""
        return AsyncTextStream(self.submit(model_id, Completion(prompt, Terms.of(config, **terms))))

    async def generate_choices(
        self,
        model_id: str,
        prompt: Prompt,
        n: int,
        config: GenerationConfig | None = None,
        **terms: Unpack[TermOptions],
    ) -> tuple[Generation, ...]:
        """Continue a text in `n` ways at once."""
        return await _all(self.submit(model_id, Completion(prompt, Terms.of(config, n, **terms))))

    async def chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> Generation:
        """Answer a conversation, or go on with its last message."""
        question = Conversation(messages, Terms.of(config, **terms), continue_final_message)
        return await _whole(AsyncTextStream(self.submit(model_id, question)))

    def stream_chat(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> AsyncTextStream:
        """Answer a conversation as `chat` does, as an asynchronous iterator of the pieces."""
        question = Conversation(messages, Terms.of(config, **terms), continue_final_message)
        return AsyncTextStream(self.submit(model_id, question))

    async def reply(
        self,
        model_id: str,
        messages: Messages,
        config: GenerationConfig | None = None,
        *,
        options: ChatOptions | None = None,
        **terms: Unpack[TermOptions],
    ) -> Reply:
        """Answer a conversation as `chat` does, with tools, told apart into thought, content and calls."""
        check_options(options)
        question = Conversation(
            messages, Terms.of(config, **terms), options=options or ChatOptions(), is_read=True
        )
        answer = await _whole(AsyncTextStream(self.submit(model_id, question)))
        reading = await self._workers.call(partial(self.engine.reading, model_id, question))
        return reading.read(answer.text)

    async def chat_as(
        self,
        model_id: str,
        messages: Messages,
        kind: type[Typed],
        config: GenerationConfig | None = None,
        *,
        timeout: float | None = None,
    ) -> Typed:
        """Answer a conversation with an object of a class, of Pydantic's for example."""
        async with self.stream_chat_as(model_id, messages, kind, config, timeout=timeout) as stream:
            async for _ in stream:
                pass
            return stream.value

    def stream_chat_as(
        self,
        model_id: str,
        messages: Messages,
        kind: type[Typed],
        config: GenerationConfig | None = None,
        *,
        timeout: float | None = None,
    ) -> AsyncTypedStream[Typed]:
        """Answer a conversation as `chat_as` does, as an iterator that has the object at its end."""
        terms = Terms(config=config, timeout=timeout, response_format=format_of(kind))
        question = Conversation(messages, terms, is_read=True)
        reading = partial(self._workers.call, partial(self.engine.reading, model_id, question))
        return AsyncTypedStream(AsyncTextStream(self.submit(model_id, question)), reading, kind)

    async def chat_choices(
        self,
        model_id: str,
        messages: Messages,
        n: int,
        config: GenerationConfig | None = None,
        *,
        continue_final_message: bool = False,
        **terms: Unpack[TermOptions],
    ) -> tuple[Generation, ...]:
        """Answer a conversation in `n` ways at once."""
        return await _all(
            self.submit(
                model_id, Conversation(messages, Terms.of(config, n, **terms), continue_final_message)
            )
        )


def _new_workers() -> Workers:
    return Workers(_THREADS, "rase-async")


async def _ask(
    workers: Workers, engine: Engine, model_id: str, question: Question, on_event: OnEvent
) -> Handle:
    deadline = Deadline(question.terms.timeout)
    submit = partial(
        engine.submit, model_id, question, on_event, asked=deadline.asked, check=workers.check_open
    )
    return await _once_loaded(workers, engine, model_id, deadline, submit, undo=Handle.cancel)


async def _once_loaded(
    workers: Workers,
    engine: Engine,
    model_id: str,
    deadline: Deadline,
    call: Callable[[], T],
    undo: Callable[[T], object] = lambda result: None,
) -> T:
    """Make a call in a thread, as soon as a model is in memory; until then none waits."""

    def attempt() -> T | _Loading:
        loading = engine.loading(model_id, check=workers.check_open)
        return call() if loading.done() else _Loading(loading)

    def take_back(result: T | _Loading) -> None:
        if not isinstance(result, _Loading):
            undo(result)

    while isinstance(result := await workers.call(attempt, undo=take_back), _Loading):
        await _end_of(result.session, deadline)
    return result


@dataclass(frozen=True)
class _Loading:
    """What there is to wait for."""

    session: Future[Session]


async def _end_of(loading: Future[Session], deadline: Deadline) -> None:
    """Wait for a load. Raises its error, and RequestTimeout."""
    try:
        async with asyncio.timeout(deadline.left()) as limit:
            await asyncio.wrap_future(loading)
    except TimeoutError:
        if limit.expired() and deadline.timeout is not None:
            raise RequestTimeout(deadline.timeout) from None
        raise


async def _whole(stream: AsyncTextStream) -> Generation:
    async with stream:
        async for _ in stream:
            pass
    if stream.generation is None:
        raise Cancelled
    return stream.generation


async def _all(handle: AsyncHandle) -> tuple[Generation, ...]:
    ended = {event.choice: event.generation async for event in handle if isinstance(event, Ended)}
    return tuple(generation for _, generation in sorted(ended.items()))
