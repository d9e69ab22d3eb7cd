"""How long models stay in memory, and what goes when another needs it."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rase_core.errors import MemoryTaken, ModelNotFound, ModelTooLarge, ShuttingDown
from rase_core.sampling import GenerationConfig
from rase_core.testing_waits import wait_for
from rase_models import Engine, SessionCache
from rase_models.expiry import Expiry
from rase_models.room import PATIENCE_SECONDS
from rase_models.session_loader import SessionLoader
from rase_models.testing_gates import LoadGate

CONFIG = GenerationConfig(max_tokens=3, ignore_eos=True)
NAMES = ("one", "two", "three")


@pytest.fixture
def open_engine(tmp_path: Path, tiny_path: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def make(**settings: float | LoadGate | None) -> Engine:
        engine = Engine(tmp_path / "store", "reference", **settings)  # type: ignore[arg-type]
        engines.append(engine)
        for name in NAMES:
            engine.import_model(tiny_path, name)
        return engine

    yield make
    for engine in engines:
        engine.close()


def loaded(engine: Engine) -> list[str]:
    return [session.manifest.id for session in engine.loaded_models()]


def test_models_stay_for_ever_unless_told_otherwise(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    engine.generate("one", "x", CONFIG)
    (session,) = engine.loaded_models()
    assert (session.expires_in, session.is_idle) == (None, True)


def test_an_idle_model_goes_when_its_time_is_over(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=0.2)
    engine.generate("one", "x", CONFIG)
    assert loaded(engine) == ["one"]
    wait_for(lambda: loaded(engine) == [])
    assert engine.generate("one", "x", CONFIG).tokens


def test_a_model_that_was_only_looked_at_goes_too(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=0)
    engine.count_tokens("one", "x")
    assert loaded(engine) == ["one"]
    wait_for(lambda: loaded(engine) == [])


def test_a_model_whose_requester_has_gone_expires_too(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=0.0)
    engine.loading("one").result(30)
    wait_for(lambda: loaded(engine) == [])


def test_a_model_without_time_goes_with_its_last_request(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=0)
    texts = {engine.generate("one", "x", CONFIG).text for _ in range(5)}
    wait_for(lambda: loaded(engine) == [])
    with ThreadPoolExecutor(8) as pool:
        texts |= set(pool.map(lambda _: engine.generate("one", "x", CONFIG).text, range(24)))
    assert len(texts) == 1


def test_each_use_lets_a_model_stay_for_the_whole_time(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=1000)
    engine.generate("one", "x", CONFIG)
    (session,) = engine.loaded_models()
    first = session.expires_in
    time.sleep(0.05)
    assert first is not None and session.expires_in is not None and session.expires_in < first
    engine.generate("one", "x", CONFIG)
    assert session.expires_in > first - 0.05


def test_a_model_that_is_used_never_goes(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=0)
    session = engine.load("one")
    assert session.enter()
    engine.generate("one", "x", CONFIG)
    time.sleep(0.2)
    assert loaded(engine) == ["one"] and engine.load("one") is session
    session.leave()
    wait_for(lambda: loaded(engine) == [])


def test_the_time_of_one_model_is_changed_while_it_is_in_memory(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(keep_alive=1000)
    for name in ("one", "two"):
        engine.generate(name, "x", CONFIG)
    engine.keep("one", 0)
    wait_for(lambda: loaded(engine) == ["two"])
    engine.keep("two", None)
    (session,) = engine.loaded_models()
    assert session.expires_in is None
    engine.keep("three", 5)  # which is not in memory
    assert loaded(engine) == ["two"]


def test_what_watches_the_time_ends_with_the_engine(
    open_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = open_engine(keep_alive=1000)
    engine.generate("one", "x", CONFIG)
    other = Engine(tmp_path / "store", "reference", keep_alive=1000)
    other.generate("one", "x", CONFIG)
    del other
    gc.collect()
    engine.close()
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "rase-expiry"])


def test_the_model_that_was_used_first_makes_room(open_engine: Callable[..., Engine]) -> None:
    total = open_engine(kv_memory=1 << 20).estimate("one").total
    engine = open_engine(max_memory=2 * total, kv_memory=1 << 20)
    for name in ("one", "two"):
        engine.generate(name, "x", CONFIG)
    engine.generate("one", "x", CONFIG)
    engine.generate("three", "x", CONFIG)
    assert loaded(engine) == ["one", "three"]


def tight(open_engine: Callable[..., Engine]) -> Engine:
    """Return an engine with memory for one model."""
    total = open_engine(kv_memory=1 << 20).estimate("one").total
    return open_engine(kv_memory=1 << 20, max_memory=total + total // 2)


def test_a_model_that_never_fits_is_refused_with_numbers(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine(max_memory=1_000_000)
    with pytest.raises(
        ModelTooLarge, match=r"needs .* MB of memory \(weights .*more than the 1 MB"
    ) as caught:
        engine.generate("one", "x", CONFIG)
    assert caught.value.needed > caught.value.limit == 1_000_000
    assert loaded(engine) == []


def test_a_limit_that_is_tiny_is_told_as_it_is(open_engine: Callable[..., Engine]) -> None:
    for limit, text in ((1, "1 byte"), (999, "999 bytes"), (1000, "1 kB"), (1_500_000, "1.5 MB")):
        with pytest.raises(ModelTooLarge, match=f"more than the {text} that models may take"):
            open_engine(max_memory=limit).load("one")


def test_a_model_waits_for_one_that_is_used(open_engine: Callable[..., Engine]) -> None:
    engine = tight(open_engine)
    session = engine.load("one")
    assert session.enter()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engine.generate, "two", "x", CONFIG)
        time.sleep(0.2)
        assert not answer.done() and loaded(engine) == ["one"]
        session.leave()
        assert answer.result(30).tokens
    assert loaded(engine) == ["two"]


def test_a_model_waits_for_one_that_is_loaded_and_then_not_used(
    open_engine: Callable[..., Engine],
) -> None:
    total = open_engine(kv_memory=1 << 20).estimate("one").total
    gate = LoadGate()
    engine = open_engine(kv_memory=1 << 20, max_memory=total + total // 2, progress=gate)
    engine.loading("one")
    assert gate.is_reached.wait(30)
    second = engine.loading("two")
    gate.open()
    assert second.result(10).manifest.id == "two"


def test_a_load_that_waits_for_room_hears_that_it_is_not_wanted(open_engine: Callable[..., Engine]) -> None:
    engine = tight(open_engine)
    session = engine.load("one")
    assert session.enter()
    second = engine.loading("two")
    began = time.monotonic()
    engine.close(grace=0)
    assert isinstance(second.exception(10), ShuttingDown)
    wait_for(lambda: not [t for t in threading.enumerate() if t.name == "rase-load"])
    assert time.monotonic() - began < PATIENCE_SECONDS / 3
    session.leave()


def test_a_model_that_was_used_as_its_time_was_over_is_watched_on(open_engine: Callable[..., Engine]) -> None:
    session = open_engine().load("one")
    answers = [False, True]

    class Watched:
        def expire(self, found: object) -> bool:
            return answers.pop(0)

    watched = Watched()
    expiry = Expiry(watched.expire)
    session.enter()
    session.leave()
    session.keep_alive = 0.0
    expiry.watch(session)
    wait_for(lambda: not answers)


def impatient(open_engine: Callable[..., Engine]) -> Engine:
    """Return an engine with room for one model, and little time for another to wait."""
    engine = tight(open_engine)
    loader = SessionLoader(kv_memory=1 << 20, max_memory=engine.estimate("one").total * 3 // 2)
    return Engine(engine.store, "reference", cache=SessionCache(loader, patience=0.2))


def test_a_model_that_waited_in_vain_is_refused_and_names_who_is_in_the_way(
    open_engine: Callable[..., Engine],
) -> None:
    engine = impatient(open_engine)
    session = engine.load("one")
    assert session.enter()
    with pytest.raises(MemoryTaken, match="in use: one") as caught:
        engine.load("two")
    assert caught.value.users == ("one",)
    assert "former" not in caught.value.message
    session.leave()
    assert engine.load("two").manifest.id == "two"
    engine.close()


def test_a_model_that_waited_for_what_it_was_itself_before_is_told_so(
    open_engine: Callable[..., Engine],
) -> None:
    engine = impatient(open_engine)
    session = engine.load("one")
    assert session.enter()
    engine.unload("one")
    with pytest.raises(
        MemoryTaken, match=r"in use: one \(its former copy, which .* still answers requests\)$"
    ):
        engine.load("one")
    with pytest.raises(MemoryTaken, match=r"in use: one$"):
        engine.load("two")
    session.leave()
    assert engine.load("one").manifest.id == "one"
    engine.close()


def test_a_failed_load_gives_its_memory_back(open_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = tight(open_engine)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(Path(engine.inspect("one").weights_path).read_bytes())
    engine.import_model(copy, "copy")
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(bytes(content))
    for _ in range(3):
        with pytest.raises(Exception, match="sha256"):
            engine.load("copy")
    assert engine.load("one").manifest.id == "one"


def test_many_threads_and_models_in_little_memory_all_get_their_answers(
    open_engine: Callable[..., Engine],
) -> None:
    engine = tight(open_engine)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: engine.generate(NAMES[n % 3], "x", CONFIG).text, range(30)))
    assert len(set(texts)) == 1 and len(loaded(engine)) == 1


def test_an_engine_tells_of_the_cache_that_it_shares(open_engine: Callable[..., Engine]) -> None:
    cache = SessionCache(SessionLoader(kv_memory=1 << 20, kv_type="f32"))
    own = open_engine()
    first, second = (Engine(own.store, "reference", cache=cache) for _ in range(2))
    first.load("one")
    assert second.load_counts() == {"one": 1}
    assert second.kv_type == "f32"
    assert second.estimate("one").total < own.estimate("one").total
    first.close()


FORK = """
import os, sys
from rase_models import Engine

with Engine(sys.argv[1], "reference", keep_alive=60.0) as engine:
    engine.load("one")
    child = os.fork()
    if child == 0:
        engine.load("two")
        engine.keep("two", 0.0)
        import time
        end = time.monotonic() + 20
        while "two" in [session.manifest.id for session in engine.loaded_models()]:
            if time.monotonic() > end:
                os._exit(1)
            time.sleep(0.01)
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_models_expire_in_a_forked_process_too(open_engine: Callable[..., Engine]) -> None:
    store = open_engine().store
    subprocess.run([sys.executable, "-c", FORK, str(store)], check=True, timeout=60)


def test_models_are_used_by_their_aliases_as_one(open_engine: Callable[..., Engine]) -> None:
    engine = open_engine()
    engine.add_alias("one", "chat:latest")
    assert engine.load("chat:latest") is engine.load("one")
    assert engine.generate("chat:latest", "x", CONFIG) is not None
    assert engine.default_config("chat:latest") == engine.default_config("one")
    engine.unload("chat:latest")
    assert loaded(engine) == []
    with pytest.raises(ModelNotFound):
        engine.generate("chat", "x", CONFIG)


MEASURE = """
import sys
from rase_core.sampling import GenerationConfig
from rase_models import Engine

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

store, path = sys.argv[1:]
engine = Engine(store, "cpu", context_length=2048, kv_memory=50_000_000)
engine.import_model(path, "smol")
plan = engine.estimate("smol")
tokens = [1 + n % 999 for n in range(plan.kv_tokens - 8)]
before = resident()
engine.generate("smol", tokens[:2040], GenerationConfig(max_tokens=4, ignore_eos=True))
print(plan.total, resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_real_model_takes_about_what_was_planned(tmp_path: Path, smollm2_path: Path) -> None:
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "store"), str(smollm2_path)]
    planned, taken = map(
        int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    )
    assert 0.85 < planned / taken < 1.25, (planned, taken)
