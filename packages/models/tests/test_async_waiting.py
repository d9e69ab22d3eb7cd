"""What tasks wait for before a model answers: its load, a thread for their prompt, the end of the engine."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rase_core.errors import IntegrityMismatch, RequestTimeout, ShuttingDown
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_models import AsyncEngine, Engine
from rase_models.async_stream import AsyncHandle
from rase_models.request import Completion, Terms
from rase_models.testing import write_tiny_model
from rase_models.testing_gates import LoadGate, SlowCompletion

Ask = Callable[[AsyncEngine], Coroutine[None, None, object]]

CONFIG = GenerationConfig(max_tokens=5, seed=7, ignore_eos=True)
THREADS = 32
"""That an AsyncEngine has."""
MANY = 40


@pytest.fixture
def gate() -> Iterator[LoadGate]:
    gate = LoadGate("slow.gguf")
    yield gate
    gate.open()


@pytest.fixture
def engine(tmp_path: Path, gate: LoadGate) -> Iterator[Engine]:
    """An engine with the models `slow`, whose load waits at the gate, and `quick`."""
    with Engine(tmp_path / "store", "reference", progress=gate) as engine:
        for model_id in ("slow", "quick"):
            engine.import_model(write_tiny_model(tmp_path / f"{model_id}.gguf"), model_id)
        yield engine
        gate.open()


@pytest.fixture
def asked(engine: Engine) -> AsyncEngine:
    return AsyncEngine(engine)


class Hold:
    """Keeps threads until the gate is open."""

    def __init__(self) -> None:
        self.begun, self.gate = list[int](), threading.Event()

    def __call__(self) -> None:
        self.begun.append(threading.get_ident())
        assert self.gate.wait(60)


class LateRegistry(ModelRegistry):
    """A registry that knows which model is meant once the gate is open."""

    hold: Hold

    def resolve(self, model_id: str) -> str:
        self.hold()
        return super().resolve(model_id)


class LateEngine(Engine):
    """An engine whose threads find out which model is meant once the gate is open."""

    def __init__(self, store: Path) -> None:
        super().__init__(store, "reference")
        self._registry = self._late = LateRegistry(store)
        self.hold = Hold()

    @property
    def hold(self) -> Hold:
        return self._late.hold

    @hold.setter
    def hold(self, hold: Hold) -> None:
        self._late.hold = hold


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def answered(handle: AsyncHandle) -> None:
    async for _ in handle:
        pass


def test_whoever_waits_for_a_slow_load_keeps_nobody_else_waiting(asked: AsyncEngine, gate: LoadGate) -> None:
    async def ask() -> None:
        slow = [asyncio.create_task(asked.generate("slow", "Hello", CONFIG)) for _ in range(MANY)]
        loads = [asyncio.create_task(asked.load("slow")) for _ in range(MANY)]
        await until(gate.is_reached.is_set)
        async with asyncio.timeout(60):
            assert len((await asked.generate("quick", "Hello", CONFIG)).tokens) == 5
            assert await asked.load("quick")
        assert not any(task.done() for task in slow + loads)
        gate.open()
        assert {len(answer.tokens) for answer in await asyncio.gather(*slow)} == {5}
        assert len({id(session) for session in await asyncio.gather(*loads)}) == 1

    asyncio.run(ask())
    assert gate.loads == 1


def test_a_model_that_has_changed_is_loaded_again_without_keeping_others_waiting(
    engine: Engine, asked: AsyncEngine, gate: LoadGate, tmp_path: Path
) -> None:
    async def ask() -> None:
        session = engine.loaded_models()[0]
        session.manifest = replace(session.manifest, context_length=7)  # as registered before
        tasks = [asyncio.create_task(asked.generate("aliased", "Hello", CONFIG)) for _ in range(MANY)]
        await until(gate.is_reached.is_set)
        async with asyncio.timeout(60):
            assert len((await asked.generate("quick", "Hello", CONFIG)).tokens) == 5
        assert not any(task.done() for task in tasks)
        gate.open()
        assert {len(answer.tokens) for answer in await asyncio.gather(*tasks)} == {5}

    engine.add_alias("slow", "aliased")
    gate.open()
    engine.load("slow")
    gate.shut()
    asyncio.run(ask())


def test_the_time_of_a_request_goes_on_while_its_model_loads(asked: AsyncEngine, gate: LoadGate) -> None:
    async def ask() -> None:
        with pytest.raises(RequestTimeout, match=r"within 0\.1 seconds"):
            await asked.generate("slow", "Hello", CONFIG, timeout=0.1)
        gate.open()
        assert len((await asked.generate("slow", "Hello", CONFIG, timeout=60)).tokens) == 5

    asyncio.run(ask())


def test_a_task_that_is_cancelled_while_its_model_loads_asks_nothing(
    engine: Engine, asked: AsyncEngine, gate: LoadGate
) -> None:
    async def ask() -> None:
        task = asyncio.create_task(asked.generate("slow", "Hello", CONFIG))
        await until(gate.is_reached.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()
        session = await asked.load("slow")
        await asked.generate("slow", "Hello", CONFIG)
        assert session.snapshot().totals.requests == 1

    asyncio.run(ask())


def test_a_task_that_is_cancelled_while_it_waits_for_a_thread_asks_nothing(
    engine: Engine, asked: AsyncEngine, gate: LoadGate
) -> None:
    async def ask() -> None:
        session = await asked.load("quick")
        hold = Hold()
        held = SlowCompletion("Hello", Terms(config=CONFIG), hold)
        others = [asyncio.create_task(answered(asked.submit("quick", held))) for _ in range(MANY)]
        await until(lambda: len(hold.begun) == THREADS)
        task = asyncio.create_task(asked.generate("quick", "Hello", CONFIG))
        await asyncio.sleep(0)  # it waits for a thread now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.gate.set()
        await asyncio.gather(*others)
        assert session.snapshot().totals.requests == MANY

    asyncio.run(ask())


def test_what_is_asked_before_the_end_and_awaited_after_it_fails(asked: AsyncEngine) -> None:
    async def ask() -> None:
        handle = asked.submit("quick", Completion("Hello", Terms(config=CONFIG)))
        stream = asked.stream_generate("quick", "Hello", CONFIG)
        await asked.aclose()
        with pytest.raises(ShuttingDown):
            await anext(handle)
        with pytest.raises(ShuttingDown):
            await anext(stream)
        assert (await handle.get(), stream.generation) == (None, None)
        assert len((await asked.generate("quick", "Hello", CONFIG)).tokens) == 5  # it can be used again

    asyncio.run(ask())


def test_the_end_does_not_wait_for_a_thread(engine: Engine, asked: AsyncEngine, gate: LoadGate) -> None:
    async def ask() -> None:
        await asked.load("quick")
        hold = Hold()
        held = SlowCompletion("Hello", Terms(config=CONFIG), hold)
        tasks = [asyncio.create_task(anext(asked.submit("quick", held))) for _ in range(MANY)]
        await until(lambda: len(hold.begun) == THREADS)
        async with asyncio.timeout(30):
            await asked.aclose(grace=0.1)
        hold.gate.set()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(error) for error in errors} == {ShuttingDown}
        assert not engine.loaded_models()

    asyncio.run(ask())


async def answer(asked: AsyncEngine) -> object:
    return await asked.generate("quick", "Hello", CONFIG)


async def load(asked: AsyncEngine) -> object:
    return await asked.load("quick")


@pytest.mark.parametrize("grace", [None, 0.0])
@pytest.mark.parametrize(("ask", "is_loaded"), [(answer, True), (answer, False), (load, True)])
def test_what_a_thread_took_up_before_the_end_and_asks_after_it_fails(
    tmp_path: Path, tiny_path: Path, ask: Ask, is_loaded: bool, grace: float | None
) -> None:
    async def run(engine: LateEngine) -> None:
        asked = AsyncEngine(engine)
        engine.hold.gate.set()
        if is_loaded:
            await asked.load("quick")
        engine.hold = Hold()
        task = asyncio.create_task(ask(asked))
        await until(lambda: bool(engine.hold.begun))
        await asked.aclose(grace)
        engine.hold.gate.set()
        with pytest.raises(ShuttingDown):
            await task
        assert not engine.loaded_models()
        assert await ask(asked)  # it can be used again

    with LateEngine(tmp_path / "late") as engine:
        engine.import_model(tiny_path, "quick")
        asyncio.run(run(engine))


def test_the_end_ends_a_load_and_what_waits_for_it(asked: AsyncEngine, gate: LoadGate) -> None:
    async def ask() -> None:
        tasks = [asyncio.create_task(asked.generate("slow", "Hello", CONFIG)) for _ in range(3)]
        await until(gate.is_reached.is_set)
        await asked.aclose(grace=0)
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(error) for error in errors} == {ShuttingDown}

    asyncio.run(ask())


def test_a_load_that_fails_is_told_to_all_tasks_and_leaves_nothing(
    engine: Engine, asked: AsyncEngine, gate: LoadGate, tmp_path: Path
) -> None:
    async def ask() -> None:
        tasks = [asyncio.create_task(asked.generate("slow", "Hello", CONFIG)) for _ in range(MANY)]
        await until(gate.is_reached.is_set)
        gate.open()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(error) for error in errors} == {IntegrityMismatch}
        gone = asyncio.create_task(asked.generate("slow", "Hello", CONFIG))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone

    weights = tmp_path / "slow.gguf"
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    asyncio.run(ask())
    gc.collect()  # an error that nobody has heard of would be a warning
