"""Servers in processes of their own, on this machine alone."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from clients import Server

HOST = "127.0.0.1"
MODEL = "bench"
SLOTS = 8
START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server's process has: its memory in MB and its threads."""

    memory: float
    threads: int


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    server: Server
    process: subprocess.Popen[bytes]

    def usage(self) -> Usage | None:
        """Return what the process has now; None where the system does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return None
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return Usage(int(lines["VmRSS"].split()[0]) / 1024, int(lines["Threads"]))


@contextmanager
def rase(model: Path, threads: int, *options: str) -> Iterator[Running]:
    """Serve a model with rase, from a store of its own."""
    with tempfile.TemporaryDirectory() as store:
        program = [sys.executable, "-m", "rase_cli"]
        register = [*program, "model", "import", str(model), "--id", MODEL, "--store", store]
        subprocess.run(register, check=True, capture_output=True)
        command = [*program, "serve", "--store", store, "--threads", str(threads), "--log-level", "warning"]
        with _started([*command, *options]) as running:
            yield running


@contextmanager
def llama(program: Path, model: Path, threads: int) -> Iterator[Running]:
    """Serve a model with llama-server, in 8 slots."""
    command = [str(program), "-m", str(model), "--parallel", str(SLOTS), "-t", str(threads), "--log-disable"]
    with _started(command) as running:
        yield running


@contextmanager
def _started(command: list[str]) -> Iterator[Running]:
    port = _free_port()
    address = ["--host", HOST, "--port", str(port)]
    process = subprocess.Popen([*command, *address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = Server(f"http://{HOST}:{port}", MODEL)
        _wait_for(server, process)
        yield Running(server, process)
    finally:
        process.terminate()
        process.wait(60)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def _wait_for(server: Server, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a question is answered: the model is loaded then."""
    body = {"model": server.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    for _ in range(10 * START_SECONDS):
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} has ended with {process.returncode}")
        try:
            answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=START_SECONDS)
        except httpx.HTTPError:
            time.sleep(0.1)
            continue
        if answer.status_code == httpx.codes.OK:
            return
        time.sleep(0.1)
    raise SystemExit(f"{process.args!r} does not answer")
