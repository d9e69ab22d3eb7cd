"""Clients that ask all kinds of questions and leave at random moments, until a time is over.

usage: python soak_clients.py URL MODEL SECONDS CLIENTS

Prints one JSON object: how often each thing happened, and up to ten failures that no client caused. Some
questions are asked again and again, greedily or with a seed: the answer must be the one of the beginning,
when nobody else asked.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx
from clients import Server, words

REFERENCES = 12
LEAVES = 0.4
FINE = (httpx.codes.OK, httpx.codes.TOO_MANY_REQUESTS)


@dataclass(slots=True)
class Soak:
    """What happens while clients come and go."""

    server: Server
    seconds: float
    until: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    references: dict[int, str | None] = field(default_factory=dict)

    async def run(self, clients: int) -> None:
        """Learn the references, and let so many clients come and go."""
        for number in range(REFERENCES):
            self.references[number] = await self._answer(number)
        self.until = time.monotonic() + self.seconds
        await asyncio.gather(*(self._live(random.Random(i)) for i in range(clients)))

    async def _live(self, chance: random.Random) -> None:
        """Be one client after another, each with a connection of its own."""
        while time.monotonic() < self.until:
            async with self.server.connected(1) as client:
                for _ in range(chance.randrange(1, 4)):
                    await self._visit(client, chance)
                    await asyncio.sleep(0.5 * chance.random())

    async def _visit(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        visit = self._compare if chance.random() < 0.2 else self._ask
        patience = chance.expovariate(1.0) if chance.random() < LEAVES else None
        try:
            async with asyncio.timeout(patience):
                await visit(client, chance)
        except TimeoutError:
            self.counts["left"] += 1
        except httpx.HTTPError as error:
            self._fail(f"{type(error).__name__}: {error}")

    async def _compare(self, _: httpx.AsyncClient, chance: random.Random) -> None:
        number = chance.randrange(REFERENCES)
        answer = await self._answer(number)
        if answer is not None and answer != self.references[number]:
            self._fail(f"question {number} was answered otherwise: {answer!r}")
        self.counts["compared"] += answer is not None

    async def _answer(self, number: int) -> str | None:
        """Return the answer; None for a question that was refused."""
        seen = await self.server.chat(
            words(12 + 8 * number, number), 40, seed=number, temperature=0.8 * (number % 2)
        )
        self._note(seen.status, seen.error or seen.text)
        if seen.error:
            self._fail(seen.error)
        return seen.text if seen.status == httpx.codes.OK and not seen.error else None

    async def _ask(self, client: httpx.AsyncClient, chance: random.Random) -> None:
        path, body = QUESTIONS[chance.randrange(len(QUESTIONS))](self.server.model, chance)
        response = await client.post(path, json=body)
        self._note(response.status_code, response.text)

    def _note(self, status: int, text: str) -> None:
        self.counts[str(status)] += 1
        if status not in FINE:
            self._fail(f"{status}: {text}")

    def _fail(self, what: str) -> None:
        self.counts["failures"] += 1
        self.failures = [*self.failures, f"{time.strftime('%H:%M:%S')} {what[:300]}"][:10]


Asked = tuple[str, dict[str, object]]


def _text(chance: random.Random) -> str:
    """Return a question: some begin alike, a few are long."""
    beginning = words(150, "shared") if chance.random() < 0.3 else ""
    return f"{beginning} {words(chance.choice((5, 20, 60, 60, 700)), chance.random())}"


def _chat(model: str, chance: random.Random) -> Asked:
    messages = [{"role": "user", "content": _text(chance)}]
    body = {"model": model, "messages": messages, "max_tokens": chance.randrange(1, 120)}
    return "/v1/chat/completions", body | {"stream": chance.random() < 0.7, "n": chance.choice((1, 1, 3))}


def _completion(model: str, chance: random.Random) -> Asked:
    prompt = [_text(chance) for _ in range(chance.randrange(1, 4))]
    body = {"model": model, "prompt": prompt, "max_tokens": chance.randrange(1, 60), "stop": ["zebra"]}
    return "/v1/completions", body | {"temperature": 1, "top_p": 0.9, "presence_penalty": 0.3}


def _message(model: str, chance: random.Random) -> Asked:
    messages = [{"role": "user", "content": _text(chance)}]
    body = {"model": model, "messages": messages, "max_tokens": chance.randrange(1, 120)}
    return "/v1/messages", body | {"stream": chance.random() < 0.7}


def _ollama(model: str, chance: random.Random) -> Asked:
    options = {"num_predict": chance.randrange(1, 120), "seed": chance.randrange(100)}
    return "/api/generate", {"model": model, "prompt": _text(chance), "options": options}


def _models(model: str, chance: random.Random) -> Asked:
    return "/v1/chat/completions/input_tokens", {"model": model, "messages": [_said(_text(chance))]}


def _said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


QUESTIONS = (_chat, _chat, _chat, _completion, _message, _ollama, _models)


def main() -> None:
    """Soak a server, and say what happened."""
    url, model, seconds, clients = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    soak = Soak(Server(url, model), seconds)
    asyncio.run(soak.run(clients))
    sys.stdout.write(json.dumps({"counts": soak.counts, "failures": soak.failures}) + "\n")


main()
