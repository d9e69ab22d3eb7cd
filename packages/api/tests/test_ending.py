"""What is under way when the server ends, and is no answer yet, is told so."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from rase_api.app import app_of
from rase_api.listening import listen, url_of
from rase_api.server import Server
from rase_api.settings import Settings
from rase_api.state import ServerState
from rase_api.testing import ScriptedEngine, ScriptedModel
from rase_core.errors import ShuttingDown
from rase_core.testing_waits import wait_for
from rase_models.room import Check, nothing_against

USER = {"role": "user", "content": "Hi"}
QUESTIONS: dict[str, dict[str, object]] = {
    "/api/generate": {"model": "demo"},
    "/tokenize": {"model": "demo", "content": "Hi"},
    "/apply-template": {"model": "demo", "messages": [USER]},
    "/v1/messages/count_tokens": {"model": "demo", "messages": [USER]},
    "/v1/chat/completions/input_tokens": {"model": "demo", "messages": [USER]},
    "/v1/chat/completions": {"model": "demo", "messages": [USER]},
}


class Loading(ScriptedEngine):
    """An engine whose models are on their way until somebody opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.asked = threading.Event(), 0

    def load(self, model_id: str, *, check: Check = nothing_against) -> ScriptedModel:
        """Wait for the gate."""
        self.asked += 1
        self.gate.wait(20)
        return super().load(model_id)


@pytest.fixture
def engine() -> Iterator[Loading]:
    engine = Loading()
    yield engine
    engine.gate.set()


@pytest.fixture
def server(engine: Loading) -> Iterator[tuple[str, Server]]:
    """A server, and its URL, that runs in a thread until it is told to stop."""
    state = ServerState(engine, Settings())
    ready = threading.Event()
    (listener,) = listen("127.0.0.1", 0)
    server = Server(
        app_of(state), on_ready=lambda url: ready.set(), on_late=state.end_answers, grace=0, patience=20
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    assert ready.wait(20)
    yield url_of(listener), server
    server.stop()
    thread.join()


def test_a_question_that_waits_for_a_model_is_told_that_the_server_ends(
    engine: Loading, server: tuple[str, Server]
) -> None:
    url, running = server
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        asked = [pool.submit(httpx.post, f"{url}{path}", json=body) for path, body in QUESTIONS.items()]
        wait_for(lambda: engine.asked == len(QUESTIONS))
        running.stop()
        answers = [answer.result() for answer in asked]
    assert [answer.status_code for answer in answers] == [503] * len(QUESTIONS)
    assert all("shutting down" in answer.text and answer.json()["error"] for answer in answers)


def test_a_body_that_is_still_sent_is_answered_so(server: tuple[str, Server]) -> None:
    url, running = server
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), timeout=20) as connection:
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: 100\r\n\r\n{")
        wait_for(lambda: running.server_state.tasks)
        running.stop()
        assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")


async def end_twice(while_first: bool) -> None:
    """End what takes its time to end, and then, or before it has, once more."""
    state = ServerState(ScriptedEngine(), Settings())

    async def handle() -> None:
        async with state.handling():
            try:
                await asyncio.sleep(20)
            finally:
                await asyncio.sleep(0.05)

    for _ in range(2):  # the second comes when the server ends already
        task = asyncio.create_task(handle())
        await asyncio.sleep(0)
        state.end_answers()
        await asyncio.sleep(0.01 if while_first else 0.1)
        state.end_answers()
        with pytest.raises(ShuttingDown):
            await task
    state.close()


@pytest.mark.parametrize("while_first", [True, False])
def test_a_second_signal_finds_what_the_first_has_ended(while_first: bool) -> None:
    asyncio.run(end_twice(while_first))
