"""The engine under asyncio."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from rase_core.errors import (
    ContextOverflow,
    EngineError,
    ModelNotFound,
    QueueFull,
    RequestTimeout,
)
from rase_core.generation import StopReason
from rase_core.sampling import GenerationConfig
from rase_core.scheduler import Ended, Piece, SchedulerLimits
from rase_core.testing_waits import wait_for
from rase_models import AsyncEngine, AsyncTextStream, ChatOptions, Engine, ResponseFormat
from rase_models.courier import Courier
from rase_models.request import Completion, Terms
from rase_models.testing import write_tiny_model

CONFIG = GenerationConfig(max_tokens=20, seed=7, ignore_eos=True)
LONG = GenerationConfig(max_tokens=100, seed=7, ignore_eos=True)
ENDLESS = GenerationConfig(max_tokens=1 << 16, seed=7, ignore_eos=True)
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def long_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a model that can answer for minutes."""
    return write_tiny_model(tmp_path_factory.mktemp("long") / "tiny.gguf", context_length=1 << 16)


@pytest.fixture
def engine(tmp_path: Path, long_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(long_path, "tiny", chat_template="chatml")
        yield engine


@pytest.fixture
def asked(engine: Engine) -> AsyncEngine:
    return AsyncEngine(engine)


async def until_ended(engine: Engine, answers: int = 1) -> None:
    """Wait until so many answers have ended, in whatever way, and nothing is computed any more."""
    session = engine.load("tiny")
    for _ in range(3000):
        now = session.snapshot()
        if now.totals.ended.total() >= answers and not (now.waiting or now.prefilling or now.decoding):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(now)


def test_answers_are_those_of_the_engine(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        chat, text, choices, answers = await asyncio.gather(
            asked.chat("tiny", HELLO, CONFIG),
            asked.generate("tiny", "Hello", CONFIG, choice=1),
            asked.generate_choices("tiny", "Hello", 2, CONFIG),
            asked.chat_choices("tiny", HELLO, 2, CONFIG),
        )
        assert chat.text == engine.chat("tiny", HELLO, CONFIG).text
        assert text.text == engine.generate("tiny", "Hello", CONFIG, choice=1).text
        assert choices[1].tokens == text.tokens
        assert answers[0].tokens == chat.tokens

    asyncio.run(ask())


def test_replies_are_those_of_the_engine(engine: Engine, asked: AsyncEngine) -> None:
    form = ResponseFormat.choice(["a</think>yes", "b</think>no"])
    options = ChatOptions(variables={"enable_thinking": False})
    whole = engine.reply("tiny", HELLO, LONG, options=options, response_format=form)
    assert whole.content in ("a</think>yes", "b</think>no") and not whole.reasoning
    assert whole == asyncio.run(asked.reply("tiny", HELLO, LONG, options=options, response_format=form))


def test_texts_come_as_they_are_made(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        async with asked.stream_chat("tiny", HELLO, CONFIG) as stream:
            texts = [text async for text in stream]
        assert len(texts) > 1
        assert stream.generation is not None
        assert "".join(texts) == stream.generation.text == engine.chat("tiny", HELLO, CONFIG).text
        assert [text async for text in stream] == []

    asyncio.run(ask())


def test_many_tasks_share_the_steps(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        answers = await asyncio.gather(*(asked.generate("tiny", f"{i}", CONFIG) for i in range(12)))
        assert max(engine.load("tiny").snapshot().totals.batch_sizes) > 3
        for number, answer in enumerate(answers):
            assert answer.tokens == engine.generate("tiny", f"{number}", CONFIG).tokens

    asyncio.run(ask())


def test_leaving_a_stream_early_cancels_and_keeps_what_was_read(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        async with asked.stream_generate("tiny", "Hello", ENDLESS) as stream:
            first = await anext(stream)
        assert stream.generation is not None
        assert (stream.generation.text, stream.generation.stop_reason) == (first, StopReason.CANCELLED)
        await until_ended(engine)

    asyncio.run(ask())


def test_a_stream_that_was_never_read_asks_nothing(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        async with asked.stream_generate("tiny", "Hello", ENDLESS) as stream:
            pass
        assert stream.generation is None
        assert [text async for text in stream] == []
        assert engine.loaded_models() == []

    asyncio.run(ask())


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.005, 0.02])
def test_a_request_is_cancelled_with_its_task(engine: Engine, asked: AsyncEngine, delay: float) -> None:
    engine.load("tiny")

    async def ask() -> None:
        task = asyncio.create_task(asked.generate("tiny", "Hello" * 15, ENDLESS))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_ended(engine)
        ended = engine.load("tiny").snapshot().totals.ended
        assert ended["max_tokens"] == 0

    asyncio.run(ask())


def test_a_limit_of_asyncio_cancels_what_is_read_in_a_loop(engine: Engine, asked: AsyncEngine) -> None:
    async def read() -> None:
        async with asyncio.timeout(0.05):
            async with asked.stream_generate("tiny", "Hello", ENDLESS) as stream:
                async for _ in stream:
                    await asyncio.sleep(0.02)

    async def ask() -> None:
        with pytest.raises(TimeoutError):
            await read()
        await until_ended(engine)

    engine.load("tiny")
    asyncio.run(ask())


def test_a_forgotten_stream_ends(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> None:
        stream = asked.stream_generate("tiny", "Hello", ENDLESS)
        await anext(stream)
        del stream
        gc.collect()
        await until_ended(engine)
        assert engine.load("tiny").snapshot().totals.ended["cancelled"] == 1

    asyncio.run(ask())


def test_the_end_of_the_loop_ends_what_it_asked_for(engine: Engine, asked: AsyncEngine) -> None:
    async def ask() -> AsyncTextStream:
        stream = asked.stream_generate("tiny", "Hello", ENDLESS)
        await anext(stream)
        return stream

    kept = asyncio.run(ask())
    asyncio.run(until_ended(engine))
    assert engine.load("tiny").snapshot().totals.ended["cancelled"] == 1
    del kept


def test_faults_are_raised_where_they_are_awaited(asked: AsyncEngine) -> None:
    async def ask() -> None:
        with pytest.raises(ModelNotFound):
            await asked.generate("big", "Hello")
        with pytest.raises(ContextOverflow):
            await anext(asked.stream_generate("tiny", "x" * (1 << 17), CONFIG))
        with pytest.raises(RequestTimeout):
            await asked.chat("tiny", HELLO, LONG, timeout=1e-6)
        with pytest.raises(EngineError, match="invalid n: 0"):
            await asked.generate_choices("tiny", "Hello", 0, CONFIG)

    asyncio.run(ask())


def test_a_full_queue_is_told_at_once(tmp_path: Path, long_path: Path) -> None:
    async def ask(engine: Engine) -> None:
        asked = AsyncEngine(engine)
        async with asked.stream_generate("tiny", "Hello", ENDLESS) as running:
            await anext(running)
            waiting = asyncio.create_task(asked.generate("tiny", "Hello", CONFIG))
            while engine.load("tiny").snapshot().waiting < 1:
                await asyncio.sleep(0.001)
            with pytest.raises(QueueFull):
                await asked.generate("tiny", "Hello", CONFIG)
        assert len((await waiting).tokens) == 20

    limits = SchedulerLimits(waiting=1, running=1)
    with Engine(tmp_path / "narrow", "reference", limits=limits) as engine:
        engine.import_model(long_path, "tiny")
        asyncio.run(ask(engine))


def test_every_token_can_be_watched(asked: AsyncEngine) -> None:
    async def ask() -> None:
        handle = asked.submit("tiny", Completion("Hello", Terms(config=CONFIG, n=2)))
        events = [event async for event in handle]
        assert sum(isinstance(event, Ended) for event in events) == 2
        tokens = [e.token for e in events if isinstance(e, Piece) and e.choice == 1 and e.token is not None]
        assert len(tokens) == 20
        async with aclosing(asked.submit("tiny", Completion("Hello", Terms(config=ENDLESS)))) as left:
            await anext(left)
        assert [event async for event in left] == []

    asyncio.run(ask())


def test_the_loop_goes_on_while_a_model_loads_and_answers(asked: AsyncEngine) -> None:
    before = set(threading.enumerate())

    async def ask() -> None:
        async with asked:
            session = await asked.load("tiny")
            answering = asyncio.create_task(asked.generate("tiny", "Hello", LONG))
            longest, last = 0.0, time.perf_counter()
            while not answering.done():
                await asyncio.sleep(0)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            assert longest < 5
            await asked.unload("tiny")
            assert not session.enter()

    asyncio.run(ask())
    wait_for(lambda: not set(threading.enumerate()) - before)


class Counted(asyncio.SelectorEventLoop):
    """A loop that counts how often a courier wakes it."""

    wakes = 0

    def call_soon_threadsafe(self, callback: Any, *args: Any, **options: Any) -> asyncio.Handle:  # type: ignore[override]
        """Count, and wake the loop."""
        self.wakes += getattr(callback, "__func__", None) is Courier._deliver
        return super().call_soon_threadsafe(callback, *args, **options)


def test_a_step_wakes_the_loop_once_however_many_streams_it_has(engine: Engine) -> None:
    async def ask() -> None:
        asked = AsyncEngine(engine)
        answers = await asyncio.gather(*(asked.generate("tiny", [i + 1], LONG) for i in range(8)))
        assert all(len(answer.tokens) == LONG.max_tokens for answer in answers)

    with asyncio.Runner(loop_factory=Counted) as runner:
        runner.run(ask())
        wakes = cast(Counted, runner.get_loop()).wakes
    assert 0 < wakes <= engine.load("tiny").snapshot().totals.steps
