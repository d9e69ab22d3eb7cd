"""The CPU in place of a device that fails: when it may be, and with room for the model."""

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest
from rase_core.errors import DeviceLost, DeviceOutOfMemory, ModelTooLarge, ShuttingDown
from rase_core.registry import ModelRegistry
from rase_core.sampling import GenerationConfig
from rase_models import Engine, SessionCache
from rase_models.backends.base import BLOCK_TOKENS
from rase_models.gguf import GgufFile
from rase_models.kv_budget import KvBudget
from rase_models.lost_devices import LostDevices
from rase_models.memory_plan import MemoryPlan
from rase_models.request import Completion, Terms
from rase_models.room import Check
from rase_models.session import Session
from rase_models.session_loader import SessionLoader
from rase_models.testing_faults import LosingLoader

QUESTION = Completion("Hello", Terms(config=GenerationConfig(temperature=0, max_tokens=3, ignore_eos=True)))
LOSS = DeviceLost("cuda", "gone")


class Taken:
    """Room of which it is known who asked for it."""

    def __init__(self) -> None:
        self.plans: list[MemoryPlan] = []

    def __call__(self, plan: MemoryPlan, check: Check) -> None:
        self.plans.append(plan)


@dataclass(frozen=True, slots=True)
class CrampedLoader(LosingLoader):
    """Its device has room for so many tokens beside the weights."""

    tokens: int = BLOCK_TOKENS

    def _plan(self, file: GgufFile, device: str, registered: int | None = None) -> MemoryPlan:
        plan = LosingLoader._plan(self, file, device, registered)
        if device != self.extra or plan.kv_tokens is None:
            return plan
        return dataclasses.replace(plan, kv_budget=KvBudget(plan.kv // plan.kv_tokens * self.tokens))


@pytest.fixture
def registry(tmp_path: Path, tiny_path: Path) -> Iterator[ModelRegistry]:
    with Engine(tmp_path / "store", "reference") as engine:
        engine.import_model(tiny_path, "tiny")
    yield ModelRegistry(tmp_path / "store")


@pytest.mark.parametrize(("may_fall_back", "gpu_layers"), [(False, None), (False, -1), (True, -1)])
def test_a_device_asked_for_that_is_lost_in_loading_is_an_error_each_time(
    registry: ModelRegistry, may_fall_back: bool, gpu_layers: int | None
) -> None:
    manifest, loader = registry.get("tiny"), LosingLoader(extra="cuda:90", losses=2, gpu_layers=gpu_layers)
    for _ in range(2):
        with pytest.raises(DeviceLost):
            loader.load(manifest, "cuda:90", may_fall_back=may_fall_back)
    session = loader.load(manifest, "cuda:90", may_fall_back=may_fall_back)
    assert (session.device, session.fallback) == ("cuda:90", None)
    session.retire()


def test_a_device_on_which_a_context_would_be_useless_is_not_taken(registry: ModelRegistry) -> None:
    manifest, loader = registry.get("tiny"), CrampedLoader(extra="cuda:97")
    with pytest.raises(DeviceOutOfMemory, match=r"the cuda:97 device .* room for a context of 64 tokens"):
        loader.load(manifest, "cuda:97")
    session = loader.load(manifest, "cuda:97", may_fall_back=True)
    assert (session.device, "context of 64 tokens" in str(session.fallback)) == ("cpu", True)
    assert session.decoder.context_length == SessionLoader().plan(manifest, "cpu").context_length
    session.retire()


def test_the_cpu_is_given_room_of_its_own_when_it_loads_in_place_of_a_device(registry: ModelRegistry) -> None:
    manifest, taken = registry.get("tiny"), Taken()
    loader = LosingLoader(extra="cuda:91", losses=1)
    session = loader.load(manifest, "cuda:91", may_fall_back=True, room=taken)
    assert session.device == "cpu"
    assert [plan.weights > 0 for plan in taken.plans] == [False, True]
    assert session.memory == taken.plans[-1] == SessionLoader().plan(manifest, "cpu")
    assert len(session.submit(QUESTION.request(session)).result()[0].tokens) == 3
    session.retire()


def test_the_cpu_is_given_room_of_its_own_when_it_takes_over(registry: ModelRegistry) -> None:
    manifest, taken = registry.get("tiny"), Taken()
    session = LosingLoader(extra="cuda:92").load(manifest, "cuda:92", room=taken)
    assert (session.device, session.memory) == ("cuda:92", taken.plans[0])
    session.computing.replace(LOSS)
    assert session.device == "cpu"
    assert session.memory == taken.plans[-1] == SessionLoader().plan(manifest, "cpu")
    assert len(session.submit(QUESTION.request(session)).result()[0].tokens) == 3
    session.retire()


@pytest.mark.parametrize("checks", [0, 1, 3])
def test_a_spare_that_nobody_wants_any_more_is_not_loaded(registry: ModelRegistry, checks: int) -> None:
    device = f"cuda:{80 + checks}"  # one of its own: what a process has lost stays lost
    session = LosingLoader(extra=device).load(registry.get("tiny"), device)
    assert session.device == device
    left = iter(range(checks))

    def check() -> None:
        if next(left, None) is None:
            raise ShuttingDown

    with pytest.raises(ShuttingDown):
        session.computing.replace(LOSS, check)
    session.retire()


def test_models_that_move_to_the_cpu_count_there_for_the_memory_of_all(registry: ModelRegistry) -> None:
    plan = SessionLoader(max_memory=10**9).plan(registry.get("tiny"), "cpu")
    loader = LosingLoader(extra="cuda:94", kv_memory=plan.kv, max_memory=plan.total - 1)
    cache = SessionCache(loader, patience=0)
    session = cache.get_or_load(registry, "tiny", "cuda:94")
    with pytest.raises(ModelTooLarge):
        session.computing.replace(LOSS)
    cache.clear()


def test_idle_models_go_for_one_that_moves_to_the_cpu(registry: ModelRegistry, tiny_path: Path) -> None:
    with Engine(registry.store, "reference") as engine:
        engine.import_model(tiny_path, "other")
    cpu = SessionLoader().plan(registry.get("tiny"), "cpu")
    kv = cpu.kv or 1
    small = LosingLoader(extra="cuda:95", kv_memory=kv).plan(registry.get("tiny"), "cuda:95")
    limit = SessionLoader(kv_memory=kv).plan(registry.get("tiny"), "cpu").total + small.total - 1
    cache = SessionCache(LosingLoader(extra="cuda:95", kv_memory=kv, max_memory=limit), patience=0)
    session = cache.get_or_load(registry, "tiny", "cuda:95")
    cache.get_or_load(registry, "other", "cuda:95")
    assert len(cache.sessions()) == 2
    assert session.enter()
    session.computing.replace(LOSS)
    assert cache.sessions() == [session]
    session.leave()
    cache.clear()


def test_two_models_that_lose_one_device_at_once_do_not_wait_for_each_other(
    registry: ModelRegistry, tiny_path: Path
) -> None:
    """There is room for either of them on the CPU, and for the other one when that is done."""
    with Engine(registry.store, "reference") as engine:
        engine.import_model(tiny_path, "other")
    kv = SessionLoader().plan(registry.get("tiny"), "cpu").kv or 1
    cpu = SessionLoader(kv_memory=kv).plan(registry.get("tiny"), "cpu").total
    loader = LosingLoader(extra="cuda:96", kv_memory=kv)
    gpu = loader.plan(registry.get("tiny"), "cuda:96").total
    limit = max(cpu, 2 * gpu) + (cpu - gpu) // 2
    assert gpu < cpu and cpu + gpu > limit  # neither has room while the other keeps what it had
    cache = SessionCache(dataclasses.replace(loader, max_memory=limit), patience=20)
    sessions = [cache.get_or_load(registry, name, "cuda:96") for name in ("tiny", "other")]
    assert all(session.enter() for session in sessions)

    def move(session: Session) -> float:
        session.computing.replace(LOSS)
        session.leave()
        return monotonic()

    started = monotonic()
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(move, sessions))
    assert max(ended) - started < 15
    assert [session.device for session in sessions] == ["cpu", "cpu"]
    assert len(cache.sessions()) == 1  # the first one was idle when the second needed its memory
    cache.clear()


def test_nothing_takes_the_cpu_from_a_process() -> None:
    lost = LostDevices()
    assert "cpu" in lost.add("cpu", LOSS).message
    assert lost.reason("cpu") is None
