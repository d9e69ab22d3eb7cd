import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from rase_api import AddressUnavailable, create_app, serve
from rase_api.listening import is_loopback, listen, url_of
from rase_api.server import ECHO_SECONDS, Server
from rase_api.testing import ScriptedEngine

PROGRAM = """
import sys, time
from rase_api import serve
from rase_api.server import Server
from rase_api.testing import ScriptedEngine
engine = ScriptedEngine(context_length=200_000, before_token=lambda: time.sleep(0.01))
serve(engine, port=0, on_ready=lambda url: print(url, flush=True), grace=int(sys.argv[1]))
print("done", flush=True)
"""
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
ENDLESS = {"model": "demo", "prompt": "Hi", "ignore_eos": True, "max_tokens": 100_000, "stream": True}


@contextlib.contextmanager
def started(grace: int = 5) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the program; give the process and its URL."""
    command = [sys.executable, "-c", PROGRAM, str(grace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_port_in_use_is_named_before_anything_starts() -> None:
    (taken,) = listen("127.0.0.1", 0)
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=rf"127\.0\.0\.1:{port}: the port is in use") as failure:
            serve(ScriptedEngine(), port=port, on_ready=lambda url: pytest.fail("it started"))
    assert failure.value.port == port
    assert failure.value.advice


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("256.1.1.1", 0),
        ("", 0),
        ("no.such.host.invalid", 0),
        ("127.0.0.1", 70_000),
        ("127.0.0.1", -1),
        ("a" * 300, 0),
    ],
)
def test_an_address_that_cannot_be_is_named(host: str, port: int) -> None:
    with pytest.raises(AddressUnavailable) as failure:
        listen(host, port)
    assert "choose" in str(failure.value.advice)
    assert "stop what is using it" not in str(failure.value.advice)


def test_a_url_can_be_opened_whatever_the_family() -> None:
    (listener,) = listen("127.0.0.1", 0)
    with listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        (listener,) = listen("::1", 0)
    except AddressUnavailable:
        pytest.skip("this machine has no IPv6 loopback address")
    with listener:
        assert url_of(listener).startswith("http://[::1]:")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_listens_at_all_addresses_of_its_host(host: str) -> None:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listener) for listener in listen(host, 0)]
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        here = {family for family, *_ in found if family == socket.AF_INET or has_ipv6()}
        assert {listener.family for listener in listeners} == here
        assert len({listener.getsockname()[1] for listener in listeners}) == 1
        assert all(is_loopback(listener) for listener in listeners)
        for listener in listeners:
            socket.create_connection(listener.getsockname()[:2], timeout=5).close()


def test_a_host_of_which_one_address_is_taken_is_not_served_at_the_others() -> None:
    if len({family for family, *_ in socket.getaddrinfo("localhost", 0)}) < 2 or not has_ipv6():
        pytest.skip("localhost has one address here")
    (taken,) = listen("127.0.0.1", 0)
    with taken, pytest.raises(AddressUnavailable, match="in use"):
        listen("localhost", taken.getsockname()[1])


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "keys", "warns"), [("0.0.0.0", [], True), ("0.0.0.0", ["key"], False), ("127.0.0.1", [], False)]
)
def test_a_server_that_everybody_may_use_warns(
    caplog: pytest.LogCaptureFixture, host: str, keys: list[str], warns: bool
) -> None:
    class Begun(Exception):
        pass

    def leave(url: str) -> None:
        raise Begun

    with pytest.raises(Begun):
        serve(ScriptedEngine(), host, 0, on_ready=leave, api_keys=keys)
    assert ("no API key" in caplog.text) == warns


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_quietly(number: signal.Signals) -> None:
    with started() as (process, url):
        assert httpx.get(f"{url}/health").status_code == 200
        process.send_signal(number)
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, output, errors) == (0, "done\n", "")


@posix
def test_running_answers_are_cut_off_when_the_grace_is_over() -> None:
    with started(grace=1) as (process, url):
        with httpx.stream("POST", f"{url}/v1/completions", json=ENDLESS, timeout=10) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            process.send_signal(signal.SIGTERM)
            assert_ends_with_an_error(lines)
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, output) == (0, "done\n")
    assert errors == "the server ends, and cuts answers short: 1\n"


@posix
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGINT, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGINT),
    ],
)
def test_a_second_signal_waits_for_no_answer(first: signal.Signals, second: signal.Signals) -> None:
    with started(grace=60) as (process, url):
        with httpx.stream("POST", f"{url}/v1/completions", json=ENDLESS, timeout=10) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            process.send_signal(first)
            time.sleep(0.8)
            process.send_signal(second)
            assert_ends_with_an_error(lines)
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, output) == (0, "done\n")
    assert "Traceback" not in errors


def test_a_signal_that_comes_twice_at_once_counts_once() -> None:
    server = Server(create_app(ScriptedEngine()))
    for _ in range(3):
        server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    time.sleep(ECHO_SECONDS + 0.1)
    server.handle_exit(signal.SIGTERM, None)
    assert server.force_exit


def test_a_signal_is_the_second_where_the_server_ends_by_itself() -> None:
    server = Server(create_app(ScriptedEngine()))
    server.stop()
    server.handle_exit(signal.SIGTERM, None)
    assert server.force_exit


@posix
def test_an_answer_in_one_piece_fails_when_the_grace_is_over() -> None:
    with started(grace=1) as (process, url):
        with ThreadPoolExecutor(1) as pool:
            body = ENDLESS | {"stream": False}
            asked = pool.submit(httpx.post, f"{url}/v1/completions", json=body, timeout=10)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            response = asked.result()
        process.communicate(timeout=10)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "shutting_down"


def assert_ends_with_an_error(lines: Iterator[str]) -> None:
    last = [line for line in lines if line][-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"


@posix
def test_an_answer_that_is_nearly_done_is_finished_first() -> None:
    body = ENDLESS | {"max_tokens": 50}
    with started() as (process, url):
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=10) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_server_runs_in_any_thread_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    urls: list[str] = []
    ready = threading.Event()

    def tell(url: str) -> None:
        urls.append(url)
        ready.set()

    thread = threading.Thread(
        target=serve, args=(ScriptedEngine(),), kwargs={"port": 0, "on_ready": tell}, daemon=True
    )
    thread.start()
    assert ready.wait(10)
    assert httpx.get(f"{urls[0]}/health").status_code == 200
    assert signal.getsignal(signal.SIGINT) is before


def test_an_idle_connection_does_not_end_under_the_next_request_of_a_client() -> None:
    kept_by_clients = 60  # httpx 5 s, aiohttp 15 s, proxies a minute
    assert Server(create_app(ScriptedEngine())).config.timeout_keep_alive > kept_by_clients
