import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from rase_api import create_app, serve
from rase_api.errors import SeveralWorkers
from rase_api.preloading import Preloading
from rase_api.testing import ScriptedEngine, ScriptedModel
from rase_core.errors import BackendFailure, MemoryTaken, ModelNotFound, ModelTooLarge
from rase_core.testing_waits import wait_for
from rase_models.room import Check, nothing_against

MODELS = ("demo", "other")


class SlowEngine(ScriptedEngine):
    """Loads a model when it is let to, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__(models=MODELS)
        self.may_load = threading.Event()
        self.failure = failure

    def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
        assert self.may_load.wait(30)
        if self.failure is not None:
            raise self.failure
        return super().load(model_id)


def wait_for_ready(url: str) -> httpx.Response:
    end = time.monotonic() + 30
    while (response := httpx.get(f"{url}/ready")).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.02)
    return response


def test_a_server_is_ready_when_what_it_preloads_is_in_memory() -> None:
    engine = SlowEngine()
    seen: dict[str, httpx.Response] = {}

    def look(url: str) -> None:
        def ask() -> None:
            seen["alive"] = httpx.get(f"{url}/health")
            seen["early"] = httpx.get(f"{url}/ready")
            engine.may_load.set()
            seen["late"] = wait_for_ready(url)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=ask).start()

    serve(engine, port=0, on_ready=look, preload=["other", "demo"])
    assert (seen["alive"].status_code, seen["early"].status_code) == (200, 503)
    assert "being loaded" in seen["early"].json()["error"]["message"]
    assert seen["late"].json() == {"status": "ready", "models": ["demo", "other"]}


@pytest.mark.parametrize(
    "error", [BackendFailure("no kernels"), MemoryError("no kernels"), KeyError("no kernels")]
)
def test_a_model_that_cannot_be_preloaded_ends_the_server_with_its_error(error: Exception) -> None:
    engine = SlowEngine(error)
    engine.may_load.set()
    with pytest.raises(type(error), match="no kernels"):
        serve(engine, port=0, preload=["demo"])


def test_a_model_that_is_not_there_is_named_before_anything_starts() -> None:
    with pytest.raises(ModelNotFound, match="nobody"):
        serve(ScriptedEngine(), port=0, on_ready=lambda url: pytest.fail("it started"), preload=["nobody"])


def test_models_that_do_not_stay_together_are_told(caplog: pytest.LogCaptureFixture) -> None:
    class SmallEngine(ScriptedEngine):
        def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
            self.unload()
            return super().load(model_id)

    preloading = Preloading(SmallEngine(models=MODELS), MODELS)
    with caplog.at_level(logging.WARNING):
        preloading.start(lambda: pytest.fail("it failed"))
        wait_for(lambda: "had to go" in caplog.text)
    assert "demo had to go" in caplog.text and preloading.is_done


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (ModelTooLarge("demo", 2_000_000, 1_000_000, "weights 2 MB"), 400, "model_too_large", "model"),
        (MemoryTaken("demo", 2_000_000, 3_000_000, ["other"]), 503, "memory_taken", None),
    ],
)
def test_a_model_without_room_is_refused_with_numbers(
    error: Exception, status: int, code: str, param: str | None
) -> None:
    from rase_api.testing import served

    engine = SlowEngine(error)
    engine.may_load.set()
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}
    with served(create_app(engine)) as url:
        response = httpx.post(f"{url}/v1/chat/completions", json=body)
    told = response.json()["error"]
    assert (response.status_code, told["code"], told["param"]) == (status, code, param)
    assert "2 MB" in told["message"]
    assert ("retry-after" in response.headers) == (status == 503)


APP = """
from rase_api import create_app
from rase_api.testing import ScriptedEngine
app = create_app(ScriptedEngine())
"""
RUN = """
import sys, uvicorn
if __name__ == "__main__":
    uvicorn.run("app:app", port=0, workers=int(sys.argv[1]))
"""


def run_uvicorn(folder: Path, workers: int, until: str) -> str:
    """Run uvicorn with so many workers until a text comes, and return what it wrote."""
    (folder / "app.py").write_text(APP)
    (folder / "run.py").write_text(RUN)
    command = [sys.executable, "run.py", str(workers)]
    written = ""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            while until not in written and (line := process.stderr.readline()):
                written += line
        finally:
            process.terminate()
    return written


@pytest.mark.skipif(os.name == "nt", reason="ends a process by a signal")
def test_several_workers_of_uvicorn_are_refused_with_the_reason(tmp_path: Path) -> None:
    written = run_uvicorn(tmp_path, 2, "SeveralWorkers: 2")
    assert "one process must own a model" in written
    assert "Application startup complete" not in written


@pytest.mark.skipif(os.name == "nt", reason="ends a process by a signal")
def test_one_worker_of_uvicorn_serves(tmp_path: Path) -> None:
    assert "Uvicorn running" in run_uvicorn(tmp_path, 1, "Uvicorn running")


def test_several_workers_are_told_what_to_do() -> None:
    assert "docs/scaling.md" in str(SeveralWorkers(4).advice)
