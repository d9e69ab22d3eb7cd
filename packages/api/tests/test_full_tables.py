"""More connections than a process may have open."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import ScriptedEngine, served
from rase_core.manifest import ModelManifest
from rase_core.testing_files import no_files_left
from rase_models import Engine

pytest.importorskip("resource")

OPEN, CLIENTS = 60, 150
SERVER = f"""
import logging, resource, sys
from rase_api import serve
from rase_api.testing import ScriptedEngine

logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, ({OPEN}, {OPEN}))
serve(ScriptedEngine(), port=0, on_ready=lambda url: print(url, flush=True))
"""


def test_connections_that_cannot_be_taken_are_told_once_and_those_after_them_are_taken() -> None:
    command = [sys.executable, "-c", SERVER]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server,
        contextlib.ExitStack() as ended,
    ):
        ended.callback(server.kill)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        place = urlsplit(url)
        with contextlib.ExitStack() as clients:
            for _ in range(CLIENTS):
                clients.enter_context(socket.create_connection((place.hostname, place.port), timeout=30))
            with pytest.raises(httpx.ReadTimeout):
                httpx.get(f"{url}/health", timeout=2)
        assert httpx.get(f"{url}/health", timeout=30).status_code == 200
        server.terminate()
        told = server.communicate(timeout=30)[1]
    assert told == "no more connections can be taken for now: Too many open files\n"


CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hi"}]}


class Opening(ScriptedEngine):
    """An engine that opens a file where nobody makes an error of the engine of it."""

    def inspect(self, model_id: str) -> ModelManifest:
        with Path(__file__).open():
            return super().inspect(model_id)


def assert_told(response: httpx.Response) -> None:
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (503, "too_many_open_files")
    assert "no more files can be opened" in error["message"] and "store" not in error["message"]
    assert response.headers["retry-after"] == "1"


def test_a_request_for_which_no_file_can_be_opened_may_come_again(tmp_path: Path, smollm2_path: Path) -> None:
    with Engine(tmp_path / "s", "cpu", threads=2, context_length=256) as engine:
        engine.import_model(smollm2_path, "demo")
        with served(create_app(engine)) as url, httpx.Client(base_url=url, timeout=60) as client:
            assert client.get("/v1/models").status_code == 200
            with no_files_left():
                for response in (client.get("/v1/models"), client.post("/v1/chat/completions", json=CHAT)):
                    assert_told(response)
            short = CHAT | {"max_tokens": 1}
            assert client.post("/v1/chat/completions", json=short).status_code == 200


def test_it_is_the_same_wherever_a_file_was_to_be_opened() -> None:
    with served(create_app(Opening())) as url, httpx.Client(base_url=url) as client:
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
        with no_files_left():
            assert_told(client.post("/v1/chat/completions", json=CHAT))
