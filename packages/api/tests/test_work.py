"""A client that goes away stops the decoding, wherever its request is."""

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import Answering, ScriptedEngine, ScriptedModel, served
from rase_core.errors import Cancelled
from rase_core.scheduler import OnEvent
from rase_core.testing_waits import wait_for
from rase_models.request import Question
from rase_models.room import Check, nothing_against

ENDLESS = {"ignore_eos": True, "max_tokens": 100_000}
BODIES: dict[str, dict[str, object]] = {
    "chat/completions": {"model": "demo", "messages": [{"role": "user", "content": "Hi"}], **ENDLESS},
    "completions": {"model": "demo", "prompt": "Hi", **ENDLESS},
}


@pytest.fixture
def slow_engine() -> ScriptedEngine:
    """An engine that takes 5 ms for a token and whose answers never end."""
    return ScriptedEngine(context_length=200_000, before_token=lambda: time.sleep(0.005))


@pytest.fixture
def url(slow_engine: ScriptedEngine) -> Iterator[str]:
    """The URL of a server over the slow engine."""
    with served(create_app(slow_engine)) as url:
        yield url


def has_stopped(engine: ScriptedEngine) -> bool:
    before = len(engine.decoder.calls)
    time.sleep(0.05)
    return len(engine.decoder.calls) == before


def begin(url: str, path: str, body: dict[str, object]) -> socket.socket:
    """Send a request and leave the answer unread."""
    address = httpx.URL(url)
    request = httpx.Request("POST", f"{url}/v1/{path}", json=body)
    connection = socket.create_connection((address.host, address.port), timeout=10)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    connection.sendall(f"POST /v1/{path} HTTP/1.1\r\n{head}\r\n".encode() + request.content)
    return connection


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("streamed", [False, True])
def test_decoding_stops_when_the_client_goes(
    url: str, slow_engine: ScriptedEngine, path: str, streamed: bool
) -> None:
    with begin(url, path, BODIES[path] | {"stream": streamed}):
        wait_for(lambda: len(slow_engine.decoder.calls) > 5)
    wait_for(lambda: has_stopped(slow_engine))
    answer = httpx.post(f"{url}/v1/{path}", json=BODIES[path] | {"max_tokens": 2}, timeout=5)
    assert answer.json()["usage"]["completion_tokens"] == 2


def test_a_stream_that_is_closed_after_some_text_stops(url: str, slow_engine: ScriptedEngine) -> None:
    body = BODIES["completions"] | {"stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
    wait_for(lambda: has_stopped(slow_engine))


def test_the_other_choices_of_a_client_that_went_are_not_begun(url: str, slow_engine: ScriptedEngine) -> None:
    with begin(url, "completions", BODIES["completions"] | {"n": 5}):
        wait_for(lambda: len(slow_engine.decoder.calls) > 5)
    wait_for(lambda: has_stopped(slow_engine))
    assert len(slow_engine.requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_goes_while_it_waits_is_never_computed(
    url: str, slow_engine: ScriptedEngine, streamed: bool
) -> None:
    with begin(url, "completions", BODIES["completions"]):
        wait_for(lambda: len(slow_engine.decoder.calls) > 2)
        with begin(url, "completions", BODIES["completions"] | {"prompt": "Waiting", "stream": streamed}):
            wait_for(lambda: len(slow_engine.requests) == 2)
        time.sleep(0.05)
    wait_for(lambda: has_stopped(slow_engine))
    prompts = [call for call in slow_engine.decoder.calls if isinstance(call, tuple)]
    assert prompts == [tuple(b"Hi")]


def test_the_server_answers_others_while_it_generates(url: str, slow_engine: ScriptedEngine) -> None:
    with begin(url, "completions", BODIES["completions"]):
        wait_for(lambda: len(slow_engine.decoder.calls) > 2)
        for path in ("health", "v1/models", "v1/models/demo"):
            assert httpx.get(f"{url}/{path}", timeout=5).status_code == 200
        assert httpx.post(f"{url}/v1/completions", json={}, timeout=5).status_code == 400
        assert not has_stopped(slow_engine)


def test_many_clients_at_once_all_get_their_answer() -> None:
    engine = ScriptedEngine()
    results: list[str] = []

    def ask(url: str) -> None:
        answer = httpx.post(f"{url}/v1/completions", json={"model": "demo", "prompt": "Hi"}, timeout=30)
        results.append(answer.json()["choices"][0]["text"])

    with served(create_app(engine)) as url:
        threads = [threading.Thread(target=ask, args=(url,)) for _ in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["Paris."] * 80


def test_a_server_that_stops_does_not_wait_for_endless_answers(slow_engine: ScriptedEngine) -> None:
    with served(create_app(slow_engine)) as url:
        connection = begin(url, "completions", BODIES["completions"] | {"stream": True})
        wait_for(lambda: len(slow_engine.decoder.calls) > 5)
        started = time.monotonic()
    connection.close()
    assert time.monotonic() - started < 8
    wait_for(lambda: has_stopped(slow_engine))


def test_an_engine_that_gives_up_by_itself_is_an_error() -> None:
    has_given_up = threading.Event()

    class Tired(ScriptedEngine):
        def submit(self, model_id: str, question: Question, on_event: OnEvent) -> Answering:
            answering = super().submit(model_id, question, on_event)
            answering.cancel()
            has_given_up.set()
            return answering

    def wait() -> None:
        has_given_up.wait(10)

    with served(create_app(Tired(before_token=wait))) as url:
        response = httpx.post(f"{url}/v1/completions", json={"model": "demo", "prompt": "Hi"})
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "cancelled"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_goes_while_its_model_is_loaded_keeps_no_thread(streamed: bool) -> None:
    left = threading.Event()

    class Loading(ScriptedEngine):
        def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
            try:
                for _ in range(1000):
                    check()
                    time.sleep(0.01)
            except Cancelled:
                left.set()
                raise
            raise AssertionError("waited for")

    with served(create_app(Loading())) as url:
        for path, body in BODIES.items():
            left.clear()
            with begin(url, path, body | {"stream": streamed}):
                assert not left.wait(0.2)
            assert left.wait(5)
