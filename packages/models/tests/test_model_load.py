"""Models on their way into memory: what is asked of them meanwhile, the end of the engine, faults."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from rase_core.errors import (
    BackendFailure,
    Cancelled,
    EngineError,
    IntegrityMismatch,
    RequestTimeout,
    ShuttingDown,
)
from rase_core.progress import ProgressEvent, ProgressPhase
from rase_core.sampling import GenerationConfig
from rase_core.testing_waits import wait_for
from rase_models import Engine, Session, SessionCache
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import GgufFile
from rase_models.request import Completion, Terms
from rase_models.testing import write_tiny_model
from rase_models.testing_faults import FaultyLoader
from rase_models.testing_gates import LoadGate, SlowCompletion

CONFIG = GenerationConfig(max_tokens=5, ignore_eos=True)


@pytest.fixture
def gate() -> LoadGate:
    return LoadGate()


@pytest.fixture
def engine(tmp_path: Path, tiny_path: Path, gate: LoadGate) -> Iterator[Engine]:
    with Engine(tmp_path / "store", "reference", progress=gate) as engine:
        engine.import_model(tiny_path, "tiny")
        yield engine
        gate.open()
        assert len(engine.generate("tiny", "Hello", CONFIG).tokens) == 5  # whatever happened before


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def load_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rase-load"]


def test_the_time_of_a_request_goes_on_while_its_model_loads(engine: Engine, gate: LoadGate) -> None:
    with pytest.raises(RequestTimeout, match=r"within 0\.1 seconds"):
        engine.generate("tiny", "Hello", CONFIG, timeout=0.1)
    gate.open()
    assert len(engine.generate("tiny", "Hello", CONFIG, timeout=60).tokens) == 5
    assert gate.loads == 1  # it went on for the next one


def test_who_is_not_wanted_any_more_does_not_wait_for_a_load(
    engine: Engine, gate: LoadGate, others: ThreadPoolExecutor
) -> None:
    gone = threading.Event()

    def check() -> None:
        if gone.is_set():
            raise Cancelled

    waiting = others.submit(engine.load, "tiny", check=check)
    assert gate.is_reached.wait(20)
    gone.set()
    assert isinstance(waiting.exception(timeout=5), Cancelled)
    gate.open()
    engine.load("tiny")
    assert gate.loads == 1  # it went on for the next one


def test_the_time_of_a_request_goes_on_while_its_prompt_is_prepared(engine: Engine, gate: LoadGate) -> None:
    gate.open()
    question = SlowCompletion("Hello", Terms(config=CONFIG, timeout=0.2), lambda: time.sleep(0.3))
    engine.load("tiny")
    handle = engine.submit("tiny", question)
    with pytest.raises(RequestTimeout):
        handle.result(30)


def test_the_time_of_a_request_may_have_begun_before(engine: Engine, gate: LoadGate) -> None:
    gate.open()
    question = Completion("Hello", Terms(config=CONFIG, timeout=30))
    with pytest.raises(RequestTimeout):
        engine.submit("tiny", question, asked=time.perf_counter() - 31)
    assert engine.submit("tiny", question, asked=time.perf_counter()).result(30)


def test_a_timeout_of_nothing_is_refused_before_anything_is_loaded(engine: Engine) -> None:
    with pytest.raises(EngineError, match="invalid timeout"):
        engine.generate("tiny", "Hello", CONFIG, timeout=0)
    assert not load_threads()


def test_the_future_of_a_load_has_the_session_and_cannot_be_cancelled(engine: Engine, gate: LoadGate) -> None:
    loading = engine.loading("tiny")
    assert engine.loading("tiny") is loading
    assert not loading.cancel()
    gate.open()
    assert loading.result(30) is engine.load("tiny")


def test_the_end_of_an_engine_ends_loads_and_what_waits_for_them(
    engine: Engine, gate: LoadGate, others: ThreadPoolExecutor
) -> None:
    asked = others.submit(engine.generate, "tiny", "Hello", CONFIG)
    assert gate.is_reached.wait(30)
    loading = engine.loading("tiny")
    engine.close(grace=0)
    assert isinstance(asked.exception(30), ShuttingDown) and isinstance(loading.exception(), ShuttingDown)
    assert load_threads() and not engine.loaded_models()
    gate.open()
    wait_for(lambda: not load_threads())
    assert gate.loads == 0


def test_the_end_of_an_engine_waits_for_loads_to_end(engine: Engine, gate: LoadGate) -> None:
    engine.loading("tiny")
    assert gate.is_reached.wait(30)
    opening = threading.Timer(0.1, gate.open)
    opening.start()
    engine.close(grace=float("inf"))
    assert not load_threads()


def test_the_end_of_an_engine_from_within_a_load_does_not_wait_for_itself(
    tmp_path: Path, tiny_path: Path
) -> None:
    def close(event: ProgressEvent) -> None:
        if event.phase is ProgressPhase.LOAD:
            closing.close(grace=60)

    closing = Engine(tmp_path / "store", "reference", progress=close)
    closing.import_model(tiny_path, "tiny")
    with pytest.raises(ShuttingDown):
        closing.load("tiny")


@pytest.mark.parametrize("is_served", [False, True], ids=["first", "later"])
def test_the_end_of_an_engine_fails_a_request_that_is_being_prepared(
    engine: Engine, gate: LoadGate, others: ThreadPoolExecutor, is_served: bool
) -> None:
    gate.open()
    session = engine.load("tiny")
    if is_served:
        engine.generate("tiny", "Hello", CONFIG)
    both = threading.Barrier(2, timeout=30)
    question = SlowCompletion("Hello", Terms(config=CONFIG), lambda: (both.wait(), both.wait()))
    asked = others.submit(engine.submit, "tiny", question)
    both.wait()
    engine.close(grace=1)
    both.wait()
    assert isinstance(asked.exception(30), ShuttingDown)
    with pytest.raises((KeyError, IndexError, EngineError)):
        session.decoder.logits([1, 2])  # its memory is free


def test_a_load_that_nobody_wants_any_more_frees_what_it_loaded(engine: Engine, gate: LoadGate) -> None:
    loading: Future[Session] = engine.loading("tiny")
    engine.unload()
    gate.open()
    session = loading.result(30)
    wait_for(lambda: not load_threads())
    assert not session.enter()


def test_a_failed_load_keeps_nothing(tmp_path: Path, engine: Engine, gate: LoadGate) -> None:
    gate.open()
    weights = write_tiny_model(tmp_path / "damaged.gguf")
    engine.import_model(weights, "damaged")
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(IntegrityMismatch):
            engine.load("damaged")
        wait_for(lambda: not load_threads())
        assert not [file for file in gc.get_objects() if type(file) is GgufFile and file.path == weights]
    finally:
        gc.enable()


class StickyDecoder(ProgramDecoder):
    """Frees its memory, and then says that it could not."""

    def close(self) -> None:
        super().close()
        raise BackendFailure("it does not let go")


@pytest.fixture
def sticky(tmp_path: Path) -> Iterator[Engine]:
    """An engine with the models `one` and `two`; the first two sessions cannot be closed."""
    cache = SessionCache(FaultyLoader(kind=StickyDecoder, faults=2))
    with Engine(tmp_path / "store", "reference", cache=cache) as engine:
        for model_id in ("one", "two"):
            engine.import_model(write_tiny_model(tmp_path / f"{model_id}.gguf"), model_id)
        yield engine
        assert len(engine.generate("one", "Hello", CONFIG).tokens) == 5


def test_a_model_that_cannot_be_let_go_is_told_to_who_asks_next_and_forgotten(
    sticky: Engine, tmp_path: Path
) -> None:
    for seed in (5, 6):
        sticky.load("one")
        sticky.import_model(write_tiny_model(tmp_path / "one.gguf", seed=seed), "one")
        with pytest.raises(BackendFailure, match="it does not let go"):
            sticky.load("one")


def test_all_models_are_let_go_whatever_one_of_them_says(sticky: Engine) -> None:
    sessions = [sticky.load(model_id) for model_id in ("one", "two")]
    with pytest.raises(BackendFailure, match="it does not let go"):
        sticky.unload()
    assert sticky.loaded_models() == []
    assert not any(session.enter() for session in sessions)


ENDING = """
import sys, threading
from rase_core.progress import ProgressPhase
from rase_models import Engine

reached = threading.Event()

def hear(event):
    if event.phase is ProgressPhase.LOAD:
        reached.set()
        threading.Event().wait(0.2)

engine = Engine(sys.argv[1], "reference", progress=hear)
loading = engine.loading("tiny")
reached.wait(30)
print("ends")
"""


def test_the_end_of_the_process_ends_a_load(engine: Engine) -> None:
    """And does not wait for all of the file, of which there are many pieces."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(engine.store)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")
