"""What waits for a model keeps nothing else waiting."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from rase_api import create_app
from rase_api.pools import BoundedPool
from rase_api.testing import ScriptedEngine, ScriptedModel, served
from rase_core.errors import QueueFull
from rase_models.room import Check, nothing_against

CLIENTS = 40


class LoadingEngine(ScriptedEngine):
    """An engine whose models are in memory only after `may_load`."""

    def __init__(self) -> None:
        super().__init__()
        self.may_load = threading.Event()
        self.asked = threading.Semaphore(0)

    def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
        self.asked.release()
        self.may_load.wait(30)
        return super().load(model_id)


@pytest.fixture
def loading() -> Iterator[tuple[LoadingEngine, str]]:
    """An engine that loads its model for ever, and a server over it."""
    engine = LoadingEngine()
    with served(create_app(engine)) as url:
        yield engine, url
        engine.may_load.set()


def test_the_server_answers_while_many_wait_for_a_model(loading: tuple[LoadingEngine, str]) -> None:
    engine, url = loading
    asked = {"content": "Hi"}
    with ThreadPoolExecutor(CLIENTS) as pool:
        waiting = [pool.submit(httpx.post, f"{url}/tokenize", json=asked, timeout=30) for _ in range(CLIENTS)]
        for _ in range(20):
            assert engine.asked.acquire(timeout=10)
        for path in ("health", "ready", "v1/models", "v1/models/demo", "props", "metrics", "api/tags"):
            assert httpx.get(f"{url}/{path}", timeout=5).status_code in (200, 503), path
        assert httpx.post(f"{url}/tokenize", json=asked | {"model": "nope"}, timeout=5).status_code == 404
        engine.may_load.set()
        assert {answer.result().status_code for answer in waiting} == {200}


def test_a_pool_has_room_for_so_many_calls_and_no_more() -> None:
    go = threading.Event()
    with BoundedPool("test", 1, 2) as pool:
        running, waiting = pool.submit(go.wait, 10), pool.submit(go.wait, 10)
        with pytest.raises(QueueFull, match="2 requests"):
            pool.submit(go.wait, 10)
        assert waiting.cancel()
        assert pool.submit(go.is_set).cancel()  # it has the room of the one before
        go.set()
        assert running.result(10)
        for number in range(5):
            assert pool.submit(str, number).result(10) == str(number)
