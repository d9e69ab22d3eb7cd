"""Many more clients at once than there is room for: each gets a whole answer or is told to come back."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rase_api import create_app
from rase_api.testing import served
from rase_core.scheduler import SchedulerLimits
from rase_models.engine import Engine

pytest.importorskip("numba", reason="needs rase-models[cpu]")

CLIENTS = 200
KINDS = 5
"""So many different questions."""
URL = "/v1/chat/completions"


@pytest.fixture(scope="module")
def engine(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A small real model, with memory for half of those that may run."""
    store, limits = tmp_path_factory.mktemp("store"), SchedulerLimits(waiting=16, running=16)
    with Engine(store, "cpu", threads=2, context_length=512, kv_memory=12_000_000, limits=limits) as engine:
        engine.import_model(smollm2_path, "demo")
        engine.load("demo")
        yield engine


def question(number: int) -> dict[str, object]:
    """Return one of KINDS questions, each asked with a stream and without."""
    text = f"Tell me {number % KINDS} things. " * (1 + number % KINDS)
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 6 + number % KINDS,
    }
    return body | {"seed": number % KINDS, "ignore_eos": True, "stream": number % 2 == 0}


def text_of(answer: httpx.Response, streamed: bool) -> str:
    """Return the text of an answer, which is whole."""
    if not streamed:
        return str(answer.json()["choices"][0]["message"]["content"])
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    choices = [json.loads(line)["choices"] for line in lines]
    return "".join(choice[0]["delta"].get("content") or "" for choice in choices if choice)


async def flood(url: str, clients: int) -> list[httpx.Response]:
    """Let so many ask at once."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        asks = [client.post(URL, json=question(number)) for number in range(clients)]
        return await asyncio.gather(*asks)


def test_each_of_two_hundred_clients_gets_a_whole_answer_or_is_told_to_come_back(engine: Engine) -> None:
    with served(create_app(engine)) as url:
        alone = [
            text_of(httpx.post(url + URL, json=question(n), timeout=60), n % 2 == 0) for n in range(KINDS)
        ]
        answers = asyncio.run(flood(url, CLIENTS))
        again = httpx.post(url + URL, json=question(1), timeout=60)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) >= 32
    for number, answer in enumerate(answers):
        if answer.status_code == httpx.codes.OK:
            assert text_of(answer, number % 2 == 0) == alone[number % KINDS]
        else:
            assert int(answer.headers["retry-after"]) > 0
            assert answer.json()["error"]["code"] == "queue_full"
    assert text_of(again, False) == alone[1]
    now = engine.load("demo").snapshot()
    assert (now.waiting, now.prefilling, now.decoding, now.preempted) == (0, 0, 0, 0)
    assert now.kv_capacity is not None
    assert now.kv_used <= now.kv_capacity
