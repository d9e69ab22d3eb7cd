"""More connections than a process may have open."""

import contextlib
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import pytest

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
