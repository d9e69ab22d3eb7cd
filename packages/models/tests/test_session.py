"""Sessions and their cache: loaded once, verified, replaced, let go; and damage, which harms nobody."""

import gc
import os
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rase_core.decoder import Batch, Logits
from rase_core.errors import (
    BackendFailure,
    EngineError,
    IntegrityMismatch,
    ShuttingDown,
)
from rase_core.manifest import ModelManifest
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_core.testing_waits import wait_for
from rase_models import Engine, SessionCache
from rase_models.decoder import ProgramDecoder
from rase_models.request import Completion, Terms
from rase_models.session_loader import SessionLoader
from rase_models.testing import write_tiny_model
from rase_models.testing_faults import FaultyLoader

CONFIG = GenerationConfig(max_tokens=5, ignore_eos=True)
LONG = GenerationConfig(max_tokens=100, ignore_eos=True)


class Loads:
    """Counts how often weights were read to their end, and can make each load take a while."""

    def __init__(self) -> None:
        self.count = 0
        self.pause = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        if event.phase is ProgressPhase.LOAD and event.done == event.total:
            time.sleep(self.pause)
            self.count += 1


@pytest.fixture
def loads() -> Loads:
    return Loads()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.gguf")


@pytest.fixture
def engine(tmp_path: Path, weights: Path, tiny_path: Path, loads: Loads) -> Iterator[Engine]:
    """An engine with the model `tiny`, whose file a test may damage, and the sound one `sound`."""
    with Engine(tmp_path / "store", "reference", progress=loads) as engine:
        engine.import_model(weights, "tiny")
        engine.import_model(tiny_path, "sound")
        yield engine
        assert len(engine.generate("sound", "Hello", CONFIG).tokens) == 5  # whatever happened before


def test_many_threads_that_ask_at_once_share_one_load(engine: Engine, loads: Loads) -> None:
    loads.pause = 0.2
    with ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda _: engine.load("tiny"), range(8)))
    assert len({id(session) for session in sessions}) == 1
    assert loads.count == 1


def test_a_failed_load_is_told_to_all_who_wait_and_is_not_kept(
    engine: Engine, weights: Path, loads: Loads
) -> None:
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    loads.pause = 0.2
    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(engine.load, "tiny") for _ in range(4)]
    assert all(isinstance(result.exception(), IntegrityMismatch) for result in results)
    assert loads.count == 1
    weights.write_bytes(sound)
    assert engine.load("tiny").decoder


def test_an_interrupt_of_one_who_waits_leaves_the_load_to_the_others(
    tmp_path: Path, weights: Path, loads: Loads
) -> None:
    waiting, interrupted = threading.Event(), threading.Event()

    def interrupt(event: ProgressEvent) -> None:
        if event.phase is ProgressPhase.LOAD and not waiting.is_set():
            waiting.set()
            time.sleep(0.1)
            interrupt_main()
            assert interrupted.wait(30)
        loads(event)

    with Engine(tmp_path / "store", "reference", progress=interrupt) as engine:
        engine.import_model(weights, "tiny")
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(lambda: waiting.wait(30) and engine.load("tiny"))
            with pytest.raises(KeyboardInterrupt):
                engine.load("tiny")
            interrupted.set()
            assert other.result(30) is engine.load("tiny")
    assert loads.count == 1


def test_what_hears_of_progress_can_end_a_load(tmp_path: Path, weights: Path) -> None:
    def interrupt(event: ProgressEvent) -> None:
        if event.phase is ProgressPhase.LOAD:
            raise KeyboardInterrupt

    with Engine(tmp_path / "store", "reference", progress=interrupt) as engine:
        engine.import_model(weights, "tiny")
        with pytest.raises(KeyboardInterrupt):
            engine.load("tiny")
        assert engine.loaded_models() == []


def test_a_model_is_loaded_again_when_its_file_was_registered_anew(
    engine: Engine, weights: Path, loads: Loads
) -> None:
    before = engine.load("tiny")
    assert engine.load("tiny") is before
    write_tiny_model(weights, seed=5)
    engine.import_model(weights, "tiny")
    after = engine.load("tiny")
    assert after is not before
    assert after.manifest == engine.inspect("tiny")
    assert loads.count == 2
    assert not before.enter()


class SlowRegistry(ModelRegistry):
    """Lets something happen after its first manifest is read."""

    def __init__(self, store: Path, happen: Callable[[], object]) -> None:
        super().__init__(store)
        self._happenings = [happen]

    def get(self, model_id: str) -> ModelManifest:
        manifest = super().get(model_id)
        if self._happenings:
            self._happenings.pop()()
        return manifest


def test_a_request_that_read_an_old_manifest_does_not_evict_the_new_model(
    tmp_path: Path, weights: Path, loads: Loads
) -> None:
    registry, cache = ModelRegistry(tmp_path / "store"), SessionCache(SessionLoader(progress=loads))
    registry.import_local(weights, "tiny")

    def replace_model() -> None:
        write_tiny_model(weights, seed=5)
        registry.import_local(weights, "tiny")
        cache.get_or_load(registry, "tiny", "reference")

    late = cache.get_or_load(SlowRegistry(registry.store, replace_model), "tiny", "reference")
    assert late is cache.get_or_load(registry, "tiny", "reference")
    assert loads.count == 1
    cache.clear()


def test_clearing_closes_what_is_idle_and_waits_for_what_is_in_use(engine: Engine) -> None:
    session = engine.load("tiny")
    assert session.enter()
    engine.unload()
    assert not session.enter()
    assert len(session.decoder.logits([1, 2])) == 2
    session.leave()
    with pytest.raises((KeyError, EngineError, IndexError)):
        session.decoder.logits([1, 2])


def test_a_session_that_is_gone_takes_no_requests(engine: Engine) -> None:
    session = engine.load("tiny")
    engine.unload()
    with pytest.raises(ShuttingDown):
        session.submit(Completion("Hello").request(session))


def test_a_session_goes_when_its_last_request_is_answered(engine: Engine) -> None:
    session = engine.load("tiny")
    handle = engine.submit("tiny", Completion("Hello", Terms(config=LONG)))
    next(handle)
    engine.unload()
    assert not session.enter()
    assert len(handle.result(30)[0].tokens) == LONG.max_tokens
    wait_for(lambda: not scheduler_threads())


class DefectiveDecoder(ProgramDecoder):
    """Fails in a way that nobody has thought of."""

    def forward(self, batch: Batch) -> Logits:
        raise RuntimeError("a defect")


def test_a_session_whose_scheduler_broke_is_replaced(tmp_path: Path, weights: Path) -> None:
    cache = SessionCache(FaultyLoader(kind=DefectiveDecoder))
    with Engine(tmp_path / "other", "reference", cache=cache) as engine:
        engine.import_model(weights, "tiny")
        session = engine.load("tiny")
        with pytest.raises(BackendFailure, match="a defect"):
            engine.generate("tiny", "Hello", CONFIG)
        wait_for(lambda: session.is_broken)
        assert len(engine.generate("tiny", "Hello", CONFIG).tokens) == 5
        assert engine.load("tiny") is not session


def test_closing_with_a_grace_ends_what_is_not_finished_then(engine: Engine) -> None:
    engine.load("sound")
    handle = engine.submit("tiny", Completion("Hello", Terms(config=LONG)))
    next(handle)
    engine.close(grace=0)
    with pytest.raises(ShuttingDown):
        handle.result(30)
    wait_for(lambda: not scheduler_threads())
    finished = engine.submit("tiny", Completion("Hello", Terms(config=CONFIG)))
    engine.close(grace=30)
    assert finished.is_done and len(finished.result()[0].tokens) == 5


def test_no_thread_is_left_when_the_engine_is_closed_or_forgotten(tmp_path: Path, weights: Path) -> None:
    with Engine(tmp_path / "other", "reference") as engine:
        engine.import_model(weights, "tiny")
        assert not scheduler_threads()  # it starts with the first request
        engine.generate("tiny", "Hello", CONFIG)
        assert len(scheduler_threads()) == 1
    assert not scheduler_threads()
    engine.generate("tiny", "Hello", CONFIG)
    del engine
    gc.collect()
    assert not scheduler_threads()


def test_what_a_scheduler_does_is_told(engine: Engine) -> None:
    session = engine.load("tiny")
    assert session.snapshot().totals.requests == 0
    engine.generate("tiny", "Hello", CONFIG)
    wait_for(lambda: (session.snapshot().totals.requests, session.snapshot().decoding) == (1, 0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_loads_models_of_its_own(engine: Engine) -> None:
    alone = engine.generate("tiny", "Hello", CONFIG).tokens
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, _in_forked_process(engine, alone))
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"refused, then the same"
    os.close(reading)
    assert engine.generate("tiny", "Hello", CONFIG).tokens == alone


def _in_forked_process(engine: Engine, alone: tuple[int, ...]) -> bytes:
    try:
        engine.generate("tiny", "Hello", CONFIG)
    except BackendFailure as error:
        if "forked" not in error.message:
            return error.message.encode()
    engine.unload()
    is_same = engine.generate("tiny", "Hello", CONFIG).tokens == alone
    engine.unload()
    return b"refused, then the same" if is_same else b"another answer"


def scheduler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rase-scheduler"]


def test_a_session_that_goes_between_asking_and_entering_is_loaded_again(
    engine: Engine, weights: Path, loads: Loads
) -> None:
    stop = threading.Event()

    def unload() -> None:
        for _ in range(200):  # not for ever: a load has to win at some time
            if stop.wait(0.002):
                return
            engine.unload("tiny")

    unloader = threading.Thread(target=unload)
    unloader.start()
    try:
        answers = {engine.generate("tiny", "Hello", CONFIG).tokens for _ in range(5)}
    finally:
        stop.set()
        unloader.join()
    assert len(answers) == 1


def test_a_cache_knows_a_device_however_it_is_written(engine: Engine, tmp_path: Path) -> None:
    cache, registry = SessionCache(), ModelRegistry(tmp_path / "store")
    session = cache.get_or_load(registry, "tiny", "reference")
    assert cache.get_or_load(registry, "tiny", " Reference ") is session
    assert cache.sessions() == [session]
    cache.clear()
    assert not session.enter()
